"""``gitsync drift``."""

from __future__ import annotations

from typing import Any

from gitsync.cli.applications import all_applications, one_application
from gitsync.cli.errors import print_error
from gitsync.cli.evaluation import Evaluator
from gitsync.cli.options import NAMESPACE, Target
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.plan_output import rows_of
from gitsync.errors import GitsyncError, one_line
from gitsync.objects.change import Action
from gitsync.objects.manifest import Manifest, at

_COLUMNS = ("application", "object", "what", "path", "desired", "live", "manager", "time", "where")
_SHOWN = 60
_WHAT = {Action.CREATE: "deleted", Action.PRUNE: "not declared any more"}


def drift(name: str, namespace: str, output: Format, site: Target) -> Exit:
    """Print what differs from the commit that was applied last: what Git did since is no drift."""
    desk = Evaluator(site)
    if name:
        applications = [one_application(desk.client, namespace or NAMESPACE, name)]
    else:
        applications = all_applications(desk.client, namespace)
    rows: list[dict[str, Any]] = []
    failed = Exit.OK
    for application in applications:
        try:
            rows += _drift(desk, application)
        except GitsyncError as error:  # one that cannot be looked at must not hide the others
            failed = print_error(error)
    if output is Format.TABLE:
        rows = [row | {side: _cell(row.get(side)) for side in ("desired", "live")} for row in rows]
    if rows or output is not Format.TABLE:
        show(rows, _COLUMNS, output)
    elif not failed:
        say("nothing differs from what was applied", "green")
    return failed or (Exit.DIFFERENT if rows else Exit.OK)


def _cell(value: Any) -> str | None:
    return None if value is None else one_line(str(value), _SHOWN)


def _drift(desk: Evaluator, manifest: Manifest) -> list[dict[str, Any]]:
    """Return a row for each field of an Application that was changed in the cluster."""
    applied = str(at(manifest, "status", "revision", "applied", default=""))
    if not applied:
        return []
    found = desk.evaluate_commit(manifest, applied)
    return [
        {"application": found.application.key, "revision": applied, "what": _WHAT.get(step.action, "changed"), **row}
        for step in found.plan.writes
        for row in rows_of(step, found.traces)
    ]
