"""Inventory: the objects an owner holds. It is the only licence to prune."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitsync.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of an object in the inventory: the API version it was applied at, and its uid once it has one."""

    version: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """An immutable mapping of refs to what is held; it is written wider before an apply and narrower after a prune."""

    entries: Mapping[ObjectRef, Held] = field(default_factory=dict)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self.entries)

    def widened(self, entries: Mapping[ObjectRef, Held]) -> Inventory:
        """Return the inventory with these entries added; a known uid is never forgotten for an unknown one."""
        merged = dict(self.entries)
        for ref, held in entries.items():
            known = merged.get(ref)
            merged[ref] = Held(held.version, held.uid or (known.uid if known else ""))
        return Inventory(merged)

    def without(self, refs: Iterable[ObjectRef]) -> Inventory:
        """Return the inventory without these refs."""
        gone = frozenset(refs)
        return Inventory({ref: held for ref, held in self.entries.items() if ref not in gone})

    def to_status(self) -> list[dict[str, str]]:
        """Return the entries as they stand in ``status.inventory``, sorted."""
        return [
            {"id": ref.path, "version": held.version, **({"uid": held.uid} if held.uid else {})}
            for ref, held in sorted(self.entries.items())
        ]

    @classmethod
    def from_status(cls, entries: Iterable[Mapping[str, Any]]) -> Inventory:
        """Read what ``to_status`` wrote."""
        return cls(
            {
                ObjectRef.from_path(str(entry["id"])): Held(str(entry.get("version", "")), str(entry.get("uid", "")))
                for entry in entries
            }
        )
