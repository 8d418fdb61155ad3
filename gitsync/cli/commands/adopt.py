"""``gitsync adopt``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import ApplicationComparison, Evaluator
from gitsync.cli.data_folder import open_records
from gitsync.cli.edits import CommandEdits, EditOptions
from gitsync.cli.options import GitTarget, Reason, command
from gitsync.cli.output import Exit, say
from gitsync.edit.adopt import ClusterValue
from gitsync.errors import InvalidInput
from gitsync.objects.change import ABSENT, DRIFT, FieldDifference
from gitsync.objects.manifest import at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import DRIFT_ACTION, past_fields
from gitsync.plan.mask import json_value

_LINKS = 500
"""Ended drift that is searched for values that were corrected, the newest first."""


@command
def adopt(
    target: GitTarget,
    object: Annotated[str, typer.Argument(metavar="[KIND/NAME]", help="Only the changes of this object.")] = "",
    field: Annotated[str, typer.Argument(metavar="[FIELD]", help="Only this field, such as spec.replicas.")] = "",
    branch: Annotated[str, typer.Option(help="Push the commit to this branch.")] = "",
    author: Annotated[str, typer.Option(help="The author of the commit: Name <mail>.")] = "",
    reason: Reason = "",
) -> Exit:
    """
    Take what was changed in the cluster back into Git: as a pull request, a branch, or a patch. Exit code 1: a value
    could not be taken.
    """
    evaluator = Evaluator(target)
    manifest = one_application(evaluator.client, target.namespace, target.name)
    applied = str(at(manifest, "status", "revision", "applied", default=""))
    if not applied:
        raise InvalidInput("nothing was applied yet", object=f"Application {target.key}")
    comparison = evaluator.evaluate_commit(manifest, applied)
    app = comparison.application
    values = [value for value in _open_values(comparison) if _is_meant(value, object, field)]
    # self-heal undoes most edits within a second: what was corrected is in the audit
    if not values and object:
        values = [value for value in _corrected(target) if _is_meant(value, object, field)]
    if not values:
        say("nothing was changed in the cluster", "green")
        return Exit.OK
    return CommandEdits(evaluator, target).keep(app, values, EditOptions(branch, author, reason))


def _open_values(comparison: ApplicationComparison) -> Iterator[ClusterValue]:
    """Yield the values that differ now, and those that Git does not declare."""
    for step in comparison.plan.outstanding:
        for difference in step.differences:
            if difference.kind in DRIFT:
                yield _value(step.ref, difference)
    for ref, differences in comparison.additions.items():
        for difference in differences:
            yield _value(ref, difference)


def _value(ref: ObjectRef, difference: FieldDifference) -> ClusterValue:
    value = None if difference.live is ABSENT else json_value(difference.live)
    owner = next(iter(difference.owners), None)
    manager = owner.manager if owner is not None else ""
    time = str(owner.time or "") if owner is not None else ""
    return ClusterValue(ref, difference.path, value, manager, time)


def _corrected(target: GitTarget) -> Iterator[ClusterValue]:
    """Yield the last value of each field before it was corrected, from the audit."""
    with open_records(target.data) as records:
        links = records.audit_records(target.key, action=DRIFT_ACTION, limit=_LINKS)
    known: set[tuple[ObjectRef, str]] = set()
    for past in past_fields(links):
        # what a Pod ran is not in a manifest
        if past.path and not past.pod and (past.ref, past.path) not in known:
            known.add((past.ref, past.path))
            time = past.edited.isoformat(timespec="seconds") if past.edited else ""
            yield ClusterValue(past.ref, past.path, past.changed_to, past.manager, time)


def _is_meant(value: ClusterValue, object: str, field: str) -> bool:
    kind, _, name = object.partition("/")
    is_object = not object or (
        kind.lower() in (value.ref.kind.lower(), str(value.ref.of).lower())
        and name in (value.ref.name, f"{value.ref.namespace}/{value.ref.name}")
    )
    return is_object and (not field or value.path.removeprefix(".") == field.removeprefix("."))
