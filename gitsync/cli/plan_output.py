"""Output of the steps of a plan, as text and as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gitsync.cli.output import say
from gitsync.errors import one_line
from gitsync.objects.change import ABSENT, DRIFT, Action, Change, FieldDifference
from gitsync.plan.display import changes_in, inner_lines
from gitsync.plan.mask import difference_record, json_value
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.trace import Traces, place
from gitsync.sync.additions import Additions

COLUMNS = ("action", "class", "object", "path", "live", "desired", "manager", "time", "where")
_SIGNS = {Action.CREATE: ("+", "green"), Action.PRUNE: ("-", "red"), Action.REPLACE: ("±", "red")}
_MARKS = {"-": "red", "+": "green"}
_MAX_LENGTH = 200


def drifted(step: Change) -> Iterable[FieldDifference]:
    """Return the differences of a step that are drift."""
    return (difference for difference in step.differences if difference.kind in DRIFT)


def rows_of(step: Change, traces: Traces) -> list[dict[str, Any]]:
    """Return a row for each field, or one for an object that is created or deleted."""
    setters = traces.get(step.ref, {})
    base: dict[str, Any] = {
        "action": step.action.value,
        "class": step.risk.value,
        "object": str(step.ref),
        "reason": step.reason,
    }
    rows = [base | field_row(step, difference, setters.get(difference.path, ())) for difference in drifted(step)]
    return rows or [base | _origin(setters.get("", ()))]


def field_row(step: Change, difference: FieldDifference, setters: Sequence[FieldSetter]) -> dict[str, Any]:
    """Return a difference as JSON members; an absent value is null."""
    record = difference_record(difference)
    owner: dict[str, str] = next(iter(record["owners"]), {})
    inside = [
        {"path": change.path, "live": json_value(change.live), "desired": json_value(change.desired)}
        for change in changes_in(difference, step.live)
    ]
    return {
        "path": record["path"],
        "pointer": difference.pointer,
        "kind": record["kind"],
        "live": record["live"],
        "desired": record["desired"],
        **({"inside": inside} if inside else {}),
        "manager": owner.get("manager", ""),
        "time": owner.get("time", ""),
        **_origin(setters),
    }


def addition_rows(additions: Additions) -> list[dict[str, Any]]:
    """Return a row for each field that a user added beside what Git declares."""
    return [
        {"action": "", "class": "", "object": str(ref), "what": "undeclared", **_addition(item)}
        for ref, items in sorted(additions.items())
        for item in items
    ]


def _addition(item: FieldDifference) -> dict[str, Any]:
    record = difference_record(item)
    owner: dict[str, str] = next(iter(record["owners"]), {})
    names = {"manager": owner.get("manager", ""), "time": owner.get("time", "")}
    return {"path": record["path"], "pointer": item.pointer, "kind": record["kind"], "live": record["live"], **names}


def print_additions(additions: Additions) -> None:
    """Print the fields that users added beside what Git declares."""
    for row in addition_rows(additions):
        by = ", ".join(filter(None, (row["manager"], row["time"]))) or "kept by the API server"
        say(f"? {row['object']}  {row['path']}: {shown(row['live'])} is not in Git   ({by})", "yellow")


def print_steps(steps: Sequence[Change], traces: Traces) -> None:
    """Print each step with the fields that it changes, and the file and line that set each field."""
    for step in steps:
        setters = traces.get(step.ref, {})
        sign, style = _SIGNS.get(step.action, ("~", "yellow"))
        risk = step.risk.value + (f", rule {step.rule}" if step.rule else "")
        location = _location(setters.get("", ()))
        say(f"{sign} {step.action.value} {step.ref}  [{risk}] {step.reason}{location}", style)
        if step.problem:
            say(f"    cannot be done: {step.problem}", "red")
        for difference in drifted(step):
            _print_field(step, difference, setters.get(difference.path, ()))


def _print_field(step: Change, difference: FieldDifference, setters: Sequence[FieldSetter]) -> None:
    owner = difference.owners[0] if difference.owners else None
    by = f"   ({', '.join(filter(None, (owner.manager, owner.operation, owner.time)))})" if owner else ""
    inner = list(_inner(step, difference))
    values = "" if inner else f": {shown(difference.live)} -> {shown(difference.desired)}"
    say(f"    {difference.path}{values}{by}{_location(setters)}")
    for text, style in inner:
        say(f"        {text}", style)


def _inner(step: Change, difference: FieldDifference) -> Iterator[tuple[str, str]]:
    """Yield the changed lines of a long text, or the changed parts of a value replaced as a whole, with their style."""
    lines = inner_lines(difference.live, difference.desired)
    for line in lines:
        yield f"{line.mark} {one_line(line.text, _MAX_LENGTH)}", _MARKS.get(line.mark, "")
    for change in () if lines else changes_in(difference, step.live):
        yield f"{change.path}: {shown(change.live)} -> {shown(change.desired)}", ""


def _origin(setters: Sequence[FieldSetter]) -> dict[str, Any]:
    return {
        "where": place(setters),
        "steps": [{"where": setter.where, "step": setter.step} for setter in setters],
    }


def _location(setters: Sequence[FieldSetter]) -> str:
    where = place(setters)
    return f"   <- {where}" if where else ""


def shown(value: Any, limit: int = _MAX_LENGTH) -> str:
    """Return a value as one line."""
    # repr() distinguishes the text "1" from the number 1
    return "(absent)" if value is ABSENT else one_line(repr(value), limit)
