"""What pages show of one field that differs: both sides, who owns it, and where in Git it comes from. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitsync.objects.application import GitSource
from gitsync.objects.change import ABSENT, DRIFT, Difference, FieldDifference, FieldOwner
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit
from gitsync.plan.display import NestedChange, changes_in, inner_changes
from gitsync.render.provenance.recorder import FieldSetter
from gitsync.render.provenance.step_source import BUILD_STEP
from gitsync.server.formatting import value, visible
from gitsync.server.git_links import file_url
from gitsync.server.rows.text_diff import MOST_ROWS, TextRow, text_diff

_WIDEST = 4000
"""Characters of one value that are shown; the rest is counted."""
_LEAST_ROWS = 2
"""Rows of a text that differs, on a page of many objects."""
FIELDS = 20
"""Differences of one object that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    A step that set a field: its name, ``file:line``, and the page of that file at its host, if there is one.

    ``author`` is the commit that wrote the line, where it is known.
    """

    step: str
    where: str
    url: str
    author: Commit | None = None


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

    ``text`` compares a text of several lines and ``inside`` a container place by place; both are empty for a short
    value. ``steps`` are those that set the field in Git, in order, and ``origin`` is the one that had the last word.
    ``first_seen`` is when the controller saw the drift, where the API server keeps no ``time`` of the write.
    """

    path: str
    kind: str
    live: str
    desired: str
    owner: str
    operation: str
    time: str
    is_drift: bool
    first_seen: str = ""
    text: tuple[TextRow, ...] = ()
    inside: tuple[NestedDiff, ...] = ()
    origin: Place | None = None
    steps: tuple[Place, ...] = ()


def field_row(
    difference: FieldDifference,
    places: Sequence[Place] = (),
    live: Manifest | None = None,
    first_seen: str = "",
    objects: int = 1,
) -> FieldRow:
    """Return the row of a difference of one of ``objects`` on a page; its values are masked already."""
    owner = difference.owners[0] if difference.owners else None
    return FieldRow(
        path=visible(difference.path),
        kind=difference.kind.value,
        owner=visible(owner.manager) if owner else "",
        operation=_operation(owner) if owner else "",
        time=owner.time if owner else "",
        first_seen=first_seen if owner and not owner.time else "",
        is_drift=difference.kind in DRIFT,
        origin=next((place for place in reversed(places) if place.where), None),
        steps=tuple(places) if len(places) > 1 else (),
        inside=tuple(_inside(change) for change in changes_in(difference, live)),
        **_sides(difference.live, difference.desired, objects),
    )


def recorded_field(difference: Mapping[str, Any], objects: int = 1) -> FieldRow:
    """Return the row of a difference as history keeps it; there, what was absent is None."""
    owner: Mapping[str, Any] = next(iter(difference.get("owners") or ()), {})
    live, desired = (ABSENT if difference.get(side) is None else difference[side] for side in ("live", "desired"))
    kind = str(difference.get("kind", ""))
    inside = inner_changes(live, desired) if kind != Difference.ORDER.value else ()
    return FieldRow(
        path=visible(difference.get("path", "")),
        kind=kind,
        owner=visible(owner.get("manager", "")),
        operation=visible(owner.get("operation", "")),
        time=visible(owner.get("time", "")),
        is_drift=kind in {item.value for item in DRIFT},
        inside=tuple(map(_inside, inside)),
        **_sides(live, desired, objects),
    )


def places(
    steps: Iterable[FieldSetter], source: GitSource, commit: str, authors: Mapping[str, Commit]
) -> tuple[Place, ...]:
    """Return the steps that set a field as they are shown; what the build does by itself has no place."""
    return tuple(
        Place(step.step, "", "")
        if step.where == BUILD_STEP
        else Place(
            step.step, visible(step.where), file_url(source.repo_url, commit, step.where), authors.get(step.where)
        )
        for step in steps
    )


def _operation(owner: FieldOwner) -> str:
    return f"{owner.operation} of {owner.subresource}" if owner.subresource else owner.operation


def _inside(change: NestedChange) -> NestedDiff:
    return NestedDiff(visible(change.path), _short(change.live), _short(change.desired))


def _sides(live: Any, desired: Any, objects: int) -> dict[str, Any]:
    return {
        "live": _short(live),
        "desired": _short(desired),
        "text": text_diff(live, desired, max(MOST_ROWS // max(objects, 1), _LEAST_ROWS)),
    }


def _short(item: Any) -> str:
    text = value(item)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… ({len(text)} characters)"
