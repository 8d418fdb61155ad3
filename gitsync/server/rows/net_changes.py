"""What the syncs of a period changed in total: each object once, from its first state to its last. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gitsync.objects.record import Outcome, Step, SyncRecord
from gitsync.server.rows.contents import Content, recorded_content
from gitsync.server.rows.fields import FieldRow, recorded_field


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
    found: dict[tuple[str, str], NetChange] = {}
    for record in records:
        for step in record.steps:
            if step.outcome is not Outcome.SUCCEEDED or step.action == "hook":
                continue
            key = (record.application, step.ref)
            before = found.get(key)
            if before is None:
                found[key] = NetChange(record.application, step, 1, record.id)
            else:
                merged = _merged(before.step, step)
                found[key] = replace(before, step=merged, syncs=before.syncs + 1, record=record.id)
    changed = [item for item in found.values() if item.step.differences]
    return sorted(changed, key=lambda item: (item.application, item.step.ref))


def _merged(before: Step, after: Step) -> Step:
    """Return the step that has the effect of two on one object."""
    old, new = _whole(before), _whole(after)
    if old is None and new is None:
        return replace(after, differences=tuple(_fields(before, after)))
    live = old.get("live") if old is not None else new.get("live") if new is not None else None
    desired = new.get("desired") if new is not None else old.get("desired") if old is not None else None
    if live == desired:
        return replace(after, differences=())
    if live is not None and desired is not None:
        return replace(after, action="update", differences=())
    whole = {"path": "", "live": live, "desired": desired}
    return replace(after, action="create" if live is None else "prune", differences=(whole,))


def _fields(before: Step, after: Step) -> Iterable[dict[str, Any]]:
    found = {item["path"]: item for item in before.differences}
    for item in after.differences:
        first = found.get(item["path"])
        found[item["path"]] = {**item, "live": first.get("live")} if first is not None else item
    return (item for item in found.values() if item.get("live") != item.get("desired"))


def _whole(step: Step) -> dict[str, Any] | None:
    return next((item for item in step.differences if not item.get("path")), None)
