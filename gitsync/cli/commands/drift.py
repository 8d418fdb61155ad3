"""``gitsync drift``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitsync.cli.applications import all_applications, one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.errors import print_error
from gitsync.cli.options import (
    NAMESPACE,
    AgeKey,
    AnyName,
    AnyNamespace,
    GitTarget,
    Output,
    command,
)
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.plan_output import addition_rows, rows_of
from gitsync.errors import GitsyncError, one_line
from gitsync.objects.change import Action
from gitsync.objects.manifest import Manifest, at

_COLUMNS = ("application", "object", "what", "path", "desired", "live", "manager", "time", "where")
_CELL_LENGTH = 60
_WHAT = {Action.CREATE: "deleted", Action.PRUNE: "not declared any more"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyTarget(GitTarget):
    """One Application, or all of a namespace or of the cluster."""

    name: AnyName = ""
    namespace: AnyNamespace = ""


@command
def drift(
    target: AnyTarget,
    output: Output = Format.TABLE,
    age_key: AgeKey = None,
) -> Exit:
    """Show what was changed in the cluster since the last apply, by whom and when. Exit code 1: there is drift."""
    evaluator = Evaluator(target, age_key)
    if target.name:
        applications = [one_application(evaluator.client, target.namespace or NAMESPACE, target.name)]
    else:
        applications = all_applications(evaluator.client, target.namespace)
    rows: list[dict[str, Any]] = []
    failed = Exit.OK
    for application in applications:
        try:
            rows += _drift(evaluator, application)
        except GitsyncError as error:  # an Application that cannot be compared must not hide the others
            failed = print_error(error)
    if rows or output is not Format.TABLE:
        show(map(_cut, rows) if output is Format.TABLE else rows, _COLUMNS, output, key="object")
    elif not failed:
        say("nothing differs from the last apply", "green")
    return failed or (Exit.DIFFERENT if rows else Exit.OK)


def _cut(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose values fit into a table."""
    values = {side: row.get(side) for side in ("desired", "live")}
    return row | {side: None if value is None else one_line(str(value), _CELL_LENGTH) for side, value in values.items()}


def _drift(evaluator: Evaluator, manifest: Manifest) -> list[dict[str, Any]]:
    """Return a row for each field that differs from the commit applied last; later commits in Git are not drift."""
    applied = str(at(manifest, "status", "revision", "applied", default=""))
    if not applied:
        return []
    comparison = evaluator.evaluate_commit(manifest, applied)
    base = {"application": comparison.application.key, "revision": applied}
    changed = [
        {**base, "what": _WHAT.get(step.action, "changed"), **row}
        for step in comparison.plan.outstanding
        for row in rows_of(step, comparison.traces)
    ]
    # what Pods run is known to the controller, which watches them
    running = [
        {**base, "what": row["kind"], "object": row["object"], "live": f"Pod {row['pod']} {row['message']}"}
        | {"time": row.get("since", "")}
        for row in at(manifest, "status", "pods", default=[])
    ]
    return [*changed, *({**base, **row} for row in addition_rows(comparison.additions)), *running]
