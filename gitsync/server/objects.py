"""What pages show of single objects: rows, differences of fields, lines of long values. Pure."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.objects.change import ABSENT, DRIFT, Difference, FieldDifference
from gitsync.objects.health import Health
from gitsync.ports import ResourceView
from gitsync.server.text import value, visible

_CONTEXT = 3
_LONGEST = 1000
"""Lines of a value that are compared line by line; more are only counted."""
_WIDEST = 4000
_BADNESS = {Health.DEGRADED: 4, Health.MISSING: 3, Health.PROGRESSING: 2, Health.UNKNOWN: 1}


@dataclass(frozen=True, slots=True)
class ResourceRow:
    """One object of an application."""

    path: str
    kind: str
    group: str
    namespace: str
    name: str
    sync: str
    health: str
    reason: str
    action: str
    risk: str


def resource_row(view: ResourceView) -> ResourceRow:
    """Return the row of an object; its reason is what is wrong, else what its health says."""
    ref = view.ref
    drift = sum(1 for difference in view.change.differences if difference.kind in DRIFT)
    differ = f"{drift} {'field differs' if drift == 1 else 'fields differ'}" if drift else ""
    words = [view.problem, view.health.message, differ]
    return ResourceRow(
        path=ref.path,
        kind=visible(ref.kind),
        group=ref.group,
        namespace=ref.namespace,
        name=visible(ref.name),
        sync=view.sync,
        health=view.health.health.value,
        reason=visible(next((word for word in words if word), "")),
        action=view.change.action.value,
        risk=view.change.risk.value,
    )


def trouble(view: ResourceView) -> int:
    """Return how much an object needs a look; 0 when all is well."""
    return 10 * bool(view.problem) + 2 * _BADNESS.get(view.health.health, 0) + (view.sync != "Synced")


def worst_first(view: ResourceView) -> tuple[int, str, str, str]:
    """Sort objects: those in trouble first, then by kind and name."""
    return (-trouble(view), view.ref.kind, view.ref.namespace, view.ref.name)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a long value: ``mark`` is ``-`` (in the cluster), ``+`` (in Git), a space, or ``…`` (skipped)."""

    mark: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One difference of one field; ``lines`` compare a text of several lines, and are empty for a short value."""

    path: str
    kind: str
    live: str
    desired: str
    owner: str
    operation: str
    time: str
    is_drift: bool
    lines: tuple[Line, ...] = ()


def field_row(difference: FieldDifference) -> FieldRow:
    """Return the row of a difference; its values are masked already."""
    owner = difference.owners[0] if difference.owners else None
    return FieldRow(
        path=visible(difference.path),
        kind=difference.kind.value,
        live=_short(difference.live),
        desired=_short(difference.desired),
        owner=visible(owner.manager) if owner else "",
        operation=owner.operation if owner else "",
        time=owner.time if owner else "",
        is_drift=difference.kind in DRIFT,
        lines=tuple(_lines(difference.live, difference.desired)),
    )


def recorded_field(difference: Mapping[str, Any]) -> FieldRow:
    """Return the row of a difference as history keeps it; there, what was absent is None."""
    owner: Mapping[str, Any] = next(iter(difference.get("owners") or ()), {})
    live, desired = (ABSENT if difference.get(side) is None else difference[side] for side in ("live", "desired"))
    kind = str(difference.get("kind", ""))
    return FieldRow(
        path=visible(difference.get("path", "")),
        kind=kind,
        live=_short(live),
        desired=_short(desired),
        owner=visible(owner.get("manager", "")),
        operation=visible(owner.get("operation", "")),
        time=visible(owner.get("time", "")),
        is_drift=kind in {item.value for item in DRIFT},
        lines=tuple(_lines(live, desired)),
    )


def quiet_counts(view: ResourceView) -> list[tuple[str, int]]:
    """Return how many differences are shown as no drift: ignored, defaulted, of another manager."""
    found = Counter(item.kind for item in view.change.differences if item.kind not in DRIFT)
    return [(kind.value, found[kind]) for kind in Difference if found[kind]]


def _short(item: Any) -> str:
    text = value(item)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text)} characters)"


def _lines(live: Any, desired: Any) -> Iterator[Line]:
    """Yield the lines of a text that differ, with some around them; what is left out is counted."""
    before, after = (side.splitlines() if isinstance(side, str) else [] for side in (live, desired))
    if max(len(before), len(after)) < 2:
        return
    if len(before) + len(after) > _LONGEST:
        yield Line("-", f"{len(before)} lines")
        yield Line("+", f"{len(after)} lines: too many to compare here")
        return
    last = 0
    for group in difflib.SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT):
        yield from _skipped(group[0][1] - last)
        for tag, start, end, from_, to in group:
            if tag == "equal":
                yield from (Line(" ", visible(text)) for text in before[start:end])
            else:
                yield from (Line("-", visible(text)) for text in before[start:end])
                yield from (Line("+", visible(text)) for text in after[from_:to])
        last = group[-1][2]
    yield from _skipped(len(before) - last)


def _skipped(count: int) -> Iterator[Line]:
    if count > 0:
        yield Line("…", f"{count} equal {'line' if count == 1 else 'lines'}")
