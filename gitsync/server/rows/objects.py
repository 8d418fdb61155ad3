"""What pages show of single objects: rows, differences of fields, lines of long values. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.application import GitSource
from gitsync.objects.change import ABSENT, DRIFT, Difference, FieldDifference
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.plan.mask import difference_record
from gitsync.plan.value_diff import Line, NestedChange, changes_in, inner_changes, inner_lines
from gitsync.ports import ResourceView
from gitsync.render.provenance.recorder import BUILD_STEP, FieldSetter
from gitsync.server.formatting import value, visible
from gitsync.server.git_links import file_url

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
class Place:
    """A step that set a field: its name, ``file:line``, and the page of that file at its host, if there is one."""

    step: str
    where: str
    url: str


@dataclass(frozen=True, slots=True)
class NestedDiff:
    """One place inside a value that differs as a whole."""

    path: str
    live: str
    desired: str


@dataclass(frozen=True, slots=True)
class FieldRow:
    """
    One difference of one field.

    ``lines`` compare a text of several lines and ``inside`` a container place by place; both are empty for a short
    value. ``steps`` are those that set the field in Git, in order, and ``origin`` is the one that had the last word.
    """

    path: str
    kind: str
    live: str
    desired: str
    owner: str
    operation: str
    time: str
    is_drift: bool
    lines: tuple[Line, ...] = ()
    inside: tuple[NestedDiff, ...] = ()
    origin: Place | None = None
    steps: tuple[Place, ...] = ()


def field_row(difference: FieldDifference, places: Sequence[Place] = (), live: Manifest | None = None) -> FieldRow:
    """Return the row of a difference of an object; its values are masked already."""
    return replace(
        _row(difference_record(difference), changes_in(difference, live)),
        origin=next((place for place in reversed(places) if place.where), None),
        steps=tuple(places) if len(places) > 1 else (),
    )


def recorded_field(difference: Mapping[str, Any]) -> FieldRow:
    """Return the row of a difference as the history stores it."""
    live, desired = _recorded_sides(difference)
    is_order = difference.get("kind") == Difference.ORDER.value
    return _row(difference, () if is_order else inner_changes(live, desired))


def _row(record: Mapping[str, Any], inside: Iterable[NestedChange]) -> FieldRow:
    owner: Mapping[str, Any] = next(iter(record.get("owners") or ()), {})
    kind = str(record.get("kind", ""))
    return FieldRow(
        path=visible(record.get("path", "")),
        kind=kind,
        owner=visible(owner.get("manager", "")),
        operation=visible(owner.get("operation", "")),
        time=visible(owner.get("time", "")),
        is_drift=kind in {item.value for item in DRIFT},
        inside=tuple(map(_inside, inside)),
        **_sides(*_recorded_sides(record)),
    )


def _recorded_sides(record: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the live and the desired value of a record, in which an absent value is null."""
    live, desired = (ABSENT if record.get(side) is None else record[side] for side in ("live", "desired"))
    return live, desired


def places(steps: Iterable[FieldSetter], source: GitSource, commit: str) -> tuple[Place, ...]:
    """Return the steps that set a field as they are shown; what the build does by itself has no place."""
    return tuple(
        Place(step.step, "", "")
        if step.where == BUILD_STEP
        else Place(step.step, visible(step.where), file_url(source.repo_url, commit, step.where))
        for step in steps
    )


def _inside(change: NestedChange) -> NestedDiff:
    return NestedDiff(visible(change.path), _short(change.live), _short(change.desired))


def _sides(live: Any, desired: Any) -> dict[str, Any]:
    return {
        "live": _short(live),
        "desired": _short(desired),
        "lines": tuple(Line(line.mark, visible(line.text)) for line in inner_lines(live, desired)),
    }


def ignored_counts(view: ResourceView) -> list[tuple[str, int]]:
    """Return how many differences are shown as no drift: ignored, defaulted, of another manager."""
    found = Counter(item.kind for item in view.change.differences if item.kind not in DRIFT)
    return [(kind.value, found[kind]) for kind in Difference if found[kind]]


def _short(item: Any) -> str:
    text = value(item)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text)} characters)"
