"""``gitsync drift``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gitsync.cli.applications import all_applications, one_application
from gitsync.cli.comparison import Evaluator
from gitsync.cli.data_folder import open_records
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
from gitsync.errors import GitsyncError, InvalidInput, one_line
from gitsync.objects.change import Action
from gitsync.objects.manifest import Manifest, at
from gitsync.plan.drift_history import (
    DRIFT_ACTION,
    EDIT_ACTION,
    AuditedWrite,
    PastField,
    audited_writes,
    past_fields,
    person_of,
    writes_of,
)

_COLUMNS = ("application", "object", "what", "path", "desired", "live", "manager", "time", "where")
_HISTORY_COLUMNS = (
    *("application", "object", "pod", "path", "from", "to", "manager"),
    *("person", "detected", "ended", "by", "seconds"),
)
_CELL_LENGTH = 60
_EDITS = 1000
"""The newest edits, of those that the audit sink received, in which the persons of drift are looked up."""
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
    history: Annotated[
        bool, typer.Option("--history", help="List what was changed before, and how that ended, newest first.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="The newest fields to list with --history.")] = 100,
    audit_log: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="With --history: name the users from this log of the API server."
        ),
    ] = None,
) -> Exit:
    """Show what was changed in the cluster since the last apply, by whom and when. Exit code 1: there is drift."""
    if history:
        return _history(target, output, limit, audit_log)
    if audit_log is not None:
        # a log that is not read would look like one without a person
        raise InvalidInput("names the users of past drift only", location="--audit-log", hint="add --history")
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
        shown = (_cut(row, "desired", "live") for row in rows)
        show(shown if output is Format.TABLE else rows, _COLUMNS, output, key="object")
    elif not failed:
        say("nothing differs from the last apply", "green")
    return failed or (Exit.DIFFERENT if rows else Exit.OK)


def _history(target: AnyTarget, output: Format, limit: int, audit_log: Path | None) -> Exit:
    """List the drift that has ended, from the audit."""
    application = f"{target.namespace or NAMESPACE}/{target.name}" if target.name else ""
    with open_records(target.data) as records:
        links = records.audit_records(application, action=DRIFT_ACTION, limit=limit)
        received = tuple(writes_of(records.audit_records(application, action=EDIT_ACTION, limit=_EDITS)))
    fields = [
        field
        for field in past_fields(links)
        if not target.namespace or field.application.startswith(f"{target.namespace}/")
    ][:limit]
    writes = (*received, *(_writes(audit_log, fields) if audit_log is not None else ()))
    persons = [person_of(field, writes) for field in fields]
    # an empty column tells nothing
    has_persons = audit_log is not None or any(persons)
    rows = [
        {
            "application": field.application,
            "object": str(field.ref),
            "pod": field.pod,
            "path": field.path or "(deleted)",
            "from": field.declared,
            "to": field.changed_to,
            "manager": field.manager,
            **({"person": person} if has_persons else {}),
            "detected": field.detected.isoformat(timespec="seconds"),
            "ended": field.ended.isoformat(timespec="seconds"),
            "by": field.by.value,
            "seconds": round(field.seconds, 1),
        }
        for field, person in zip(fields, persons, strict=True)
    ]
    if rows or output is not Format.TABLE:
        shown = (_cut(row, "from", "to") for row in rows)
        columns = [column for column in _HISTORY_COLUMNS if column != "person" or has_persons]
        show(shown if output is Format.TABLE else rows, columns, output, key="object")
    else:
        say("no drift has ended yet")
    return Exit.OK


def _writes(audit_log: Path, fields: Sequence[PastField]) -> tuple[AuditedWrite, ...]:
    """Return the writes to the objects of some fields from an audit log of the API server."""
    with audit_log.open("rb") as lines:
        return tuple(audited_writes(lines, {(field.ref.namespace, field.ref.name) for field in fields}))


def _cut(row: dict[str, Any], *sides: str) -> dict[str, Any]:
    """Return a row whose values fit into a table."""
    values = {side: row.get(side) for side in sides}
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
