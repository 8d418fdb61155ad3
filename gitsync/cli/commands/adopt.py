"""``gitsync adopt``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from gitsync.cli.applications import one_application
from gitsync.cli.comparison import ApplicationComparison, Evaluator
from gitsync.cli.options import GitTarget, Reason, command
from gitsync.cli.output import Exit, say
from gitsync.cli.records import open_records
from gitsync.cli.requests import audit_request, user_name
from gitsync.edit.adopt import Adoption, ClusterValue
from gitsync.edit.adopt import adopt as adoption_of
from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.change import ABSENT, DRIFT, FieldDifference
from gitsync.objects.manifest import at
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import DRIFT_ACTION, past_fields
from gitsync.plan.mask import json_value
from gitsync.preview.roots import find_roots
from gitsync.services.adopt import AdoptService, ProposedAdoption
from gitsync.source.validation import clean_path

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
    head = evaluator.source.resolve(app.source, evaluator.credentials(app))
    adoption = _adoption(evaluator, app, head, values)
    for kept, problem in adoption.refused:
        say(f"not taken: {kept.ref} {kept.path}: {problem}", "yellow", is_warning=True)
    if not adoption.values:
        return Exit.DIFFERENT
    for value in adoption.values:
        say(f"take: {value}", is_warning=True)
    user = user_name()
    # before the push: without its record it is not made
    audit_request(target, "adopt", author or user, reason)
    service = AdoptService(evaluator.source, evaluator.hosts, evaluator.credentials)
    identity = author or f"{user} <{user}@localhost>"
    _print(service.propose(app, head, adoption, author=identity, reason=reason, branch=branch))
    return Exit.DIFFERENT if adoption.refused else Exit.OK


def _adoption(evaluator: Evaluator, app: Application, head: str, values: list[ClusterValue]) -> Adoption:
    tree = evaluator.source.snapshot(app.source, evaluator.credentials(app), head).tree
    root = clean_path(app.source.path)

    def roots() -> tuple[str, ...]:
        return tuple(dict.fromkeys((root, *(other.path for other in find_roots(tree, lambda _: True)))))

    return adoption_of(tree, root, values, app.destination.namespace, roots)


def _print(proposed: ProposedAdoption) -> None:
    if proposed.url:
        say(f"opened {proposed.url}")
    elif proposed.branch:
        say(f"pushed: {proposed.commit.id[:12]} {proposed.commit.subject} to {proposed.branch}")
    else:
        print(proposed.patch, end="")


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
        if past.path and (past.ref, past.path) not in known:
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
