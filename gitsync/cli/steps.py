"""Steps of a plan as people and scripts read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gitsync.cli.output import say
from gitsync.errors import one_line
from gitsync.objects.change import ABSENT, DRIFT, Action, Change, FieldDifference

COLUMNS = ("action", "class", "object", "path", "live", "desired", "manager", "time")
_SIGNS = {Action.CREATE: ("+", "green"), Action.PRUNE: ("-", "red"), Action.REPLACE: ("±", "red")}
_SHOWN = 200


def drifted(step: Change) -> Iterable[FieldDifference]:
    """Return the differences of a step that count."""
    return (difference for difference in step.differences if difference.kind in DRIFT)


def rows_of(step: Change) -> list[dict[str, Any]]:
    """Return a row for each field, or one for the object where it is made or deleted as a whole."""
    base: dict[str, Any] = {
        "action": step.action.value,
        "class": step.risk.value,
        "object": str(step.ref),
        "reason": step.reason,
    }
    return [base | field_row(difference) for difference in drifted(step)] or [base]


def field_row(difference: FieldDifference) -> dict[str, Any]:
    """Return a difference as members; a value that is not there is null."""
    owner = difference.owners[0] if difference.owners else None
    return {
        "path": difference.path,
        "pointer": difference.pointer,
        "kind": difference.kind.value,
        "live": None if difference.live is ABSENT else difference.live,
        "desired": None if difference.desired is ABSENT else difference.desired,
        "manager": owner.manager if owner else "",
        "time": owner.time if owner else "",
    }


def print_steps(steps: Sequence[Change]) -> None:
    """Print each step with the fields that it changes."""
    for step in steps:
        sign, style = _SIGNS.get(step.action, ("~", "yellow"))
        rule = f", rule {step.rule}" if step.rule else ""
        say(f"{sign} {step.action.value} {step.ref}  [{step.risk.value}{rule}] {step.reason}", style)
        if step.problem:
            say(f"    cannot be done: {step.problem}", "red")
        for difference in drifted(step):
            owner = difference.owners[0] if difference.owners else None
            by = f"   ({owner.manager}, {owner.operation}, {owner.time})" if owner else ""
            say(f"    {difference.path}: {_shown(difference.live)} -> {_shown(difference.desired)}{by}")


def _shown(value: Any) -> str:
    return "(absent)" if value is ABSENT else one_line(repr(value), _SHOWN)
