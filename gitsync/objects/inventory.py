"""Inventory: the objects an owner holds. It is the only licence to prune."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitsync.objects.ref import ObjectRef

_LISTED = 2000
"""Largest number of inventory entries that the status lists; a longer inventory is packed."""
_LONGEST = 64 << 20


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """What is known of an object in the inventory: the API version it was applied at, and its uid once it has one."""

    version: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """An immutable mapping of refs to what is held; it is written wider before an apply and narrower after a prune."""

    entries: Mapping[ObjectRef, InventoryEntry] = field(default_factory=dict)

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self.entries)

    def widened(self, entries: Mapping[ObjectRef, InventoryEntry]) -> Inventory:
        """Return the inventory with these entries added; a known uid is never forgotten for an unknown one."""
        merged = dict(self.entries)
        for ref, held in entries.items():
            known = merged.get(ref)
            merged[ref] = InventoryEntry(held.version, held.uid or (known.uid if known else ""))
        return Inventory(merged)

    def without(self, refs: Iterable[ObjectRef]) -> Inventory:
        """Return the inventory without these refs."""
        gone = frozenset(refs)
        return Inventory({ref: held for ref, held in self.entries.items() if ref not in gone})

    def to_status(self) -> dict[str, Any]:
        """
        Return the members of a status that keep it: ``inventory``, sorted, or ``packedInventory`` where that is long.

        An object may have 1.5 MiB; 10,000 entries have 1.3 MB as a list, and less than 0.5 MB packed.
        """
        entries = [
            {"id": ref.path, "version": held.version, **({"uid": held.uid} if held.uid else {})}
            for ref, held in sorted(self.entries.items())
        ]
        if len(entries) <= _LISTED:
            return {"inventory": entries} if entries else {}
        return {"packedInventory": base64.b64encode(zlib.compress(json.dumps(entries).encode())).decode()}

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> Inventory:
        """Read what ``to_status`` wrote into a status."""
        packed = status.get("packedInventory")
        entries = json.loads(_unpacked(str(packed))) if packed else status.get("inventory") or ()
        return cls(
            {
                ObjectRef.from_path(str(entry["id"])): InventoryEntry(
                    str(entry.get("version", "")), str(entry.get("uid", ""))
                )
                for entry in entries
            }
        )


def _unpacked(text: str) -> bytes:
    return zlib.decompressobj().decompress(base64.b64decode(text), _LONGEST)
