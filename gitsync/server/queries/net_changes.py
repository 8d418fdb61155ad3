"""What the syncs of a period changed in total: each object once, from its first state to its last. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.change import ABSENT
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Outcome, Step, SyncRecord
from gitsync.plan.display import inner_changes
from gitsync.server.queries.contents import Content, recorded_content
from gitsync.server.queries.fields import FieldRow, recorded_field


@dataclass(frozen=True, slots=True)
class NetChange:
    """
    An object that the syncs of a period changed.

    ``step`` has the action of the whole period and, as differences, the first value before and the last one after.
    ``syncs`` counts the syncs that wrote it, ``record`` is the id of the last.
    """

    application: str
    step: Step
    syncs: int
    record: int

    def fields(self, limit: int, objects: int) -> list[FieldRow]:
        """Return the rows of at most ``limit`` fields that changed, on a page of ``objects``."""
        return [recorded_field(item, objects) for item in self.step.differences if item.get("path")][:limit]

    def content(self, objects: int) -> Content | None:
        """Return the whole object where the period created or deleted it."""
        return recorded_content(self.step, objects)


def net_changes(records: Iterable[SyncRecord]) -> list[NetChange]:
    """Return the objects that these syncs, oldest first, changed; one that ended as it began is left out."""
    changes: dict[tuple[str, str], NetChange] = {}
    for record in records:
        for step in record.steps:
            if step.outcome is not Outcome.SUCCEEDED or step.action == "hook":
                continue
            key = (record.application, step.ref)
            earlier = changes.get(key)
            if earlier is None:
                changes[key] = NetChange(record.application, step, 1, record.id)
            else:
                merged = _merged(earlier.step, step)
                changes[key] = replace(earlier, step=merged, syncs=earlier.syncs + 1, record=record.id)
    changed = [item for item in changes.values() if item.step.differences]
    return sorted(changed, key=lambda item: (item.application, item.step.ref))


def _merged(earlier: Step, later: Step) -> Step:
    """Return the step that has the effect of two on one object."""
    old = _whole(earlier)
    new = _whole(later)
    if old is None and new is None:
        return replace(later, differences=tuple(_fields(earlier, later)))
    live = old.get("live") if old is not None else new.get("live") if new is not None else None
    desired = new.get("desired") if new is not None else old.get("desired") if old is not None else None
    if live == desired:
        return replace(later, differences=())
    whole = {"path": "", "live": live, "desired": desired}
    if live is not None and desired is not None:
        # deleted and created again: fields as in an update, or the whole object where it is too large to compare
        return replace(later, action="update", differences=tuple(_changed_fields(live, desired)) or (whole,))
    return replace(later, action="create" if live is None else "prune", differences=(whole,))


def _changed_fields(live: Manifest, desired: Manifest) -> Iterable[dict[str, Any]]:
    """Yield the fields in which two states of an object differ, as history keeps them."""
    for change in inner_changes(live, desired):
        # history has null for a field that is not there
        sides = {"live": change.live, "desired": change.desired}
        yield {"path": change.path, **{side: None if value is ABSENT else value for side, value in sides.items()}}


def _fields(earlier: Step, later: Step) -> Iterable[dict[str, Any]]:
    fields = {item["path"]: item for item in earlier.differences}
    for item in later.differences:
        first = fields.get(item["path"])
        fields[item["path"]] = {**item, "live": first.get("live")} if first is not None else item
    return (item for item in fields.values() if item.get("live") != item.get("desired"))


def _whole(step: Step) -> dict[str, Any] | None:
    return next((item for item in step.differences if not item.get("path")), None)
