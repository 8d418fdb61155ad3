"""
Inventory: the objects an owner holds. It is the only licence to prune.

``OwnerKey`` is what owns objects and writes them, as audit, queues and shards name it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gitsync.objects.keys import AGENTS_GROUP, APPLICATION, APPLICATION_SET
from gitsync.objects.ref import GroupKind, ObjectRef

_KINDS = {
    of.kind.lower(): of
    for of in (APPLICATION_SET, GroupKind(AGENTS_GROUP, "Agent"), GroupKind(AGENTS_GROUP, "MultiAgentSystem"))
}
"""The kinds besides Application, by the word in the text of a key."""


class OwnerKey(NamedTuple):
    """
    The kind, namespace and name of an owner.

    Its text is ``namespace/name`` for an Application and ``namespace/kind:name`` for any other kind: a name in
    Kubernetes contains no colon, so both forms never collide.
    """

    of: GroupKind
    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> OwnerKey:
        """Return the key of a text."""
        namespace, _, name = text.partition("/")
        word, colon, rest = name.partition(":")
        # a word that is not known is part of a name that was never valid; it finds no Application
        if colon and word in _KINDS:
            return cls(_KINDS[word], namespace, rest)
        return cls(APPLICATION, namespace, name)

    @classmethod
    def of_ref(cls, ref: ObjectRef) -> OwnerKey:
        """Return the key of an object."""
        return cls(ref.of, ref.namespace, ref.name)

    @property
    def ref(self) -> ObjectRef:
        """The object."""
        return ObjectRef(self.of.group, self.of.kind, self.namespace, self.name)

    def __str__(self) -> str:
        word = "" if self.of == APPLICATION else f"{self.of.kind.lower()}:"
        return f"{self.namespace}/{word}{self.name}"


_LISTED = 2000
"""Largest number of inventory entries that the status lists; a longer inventory is packed."""
# Bytes of an unpacked inventory. zlib expands up to a thousand times; text that is cut off here fails as JSON.
_LONGEST = 64 << 20
_KEPT = 8
"""Number of long inventories that are kept unpacked."""


class Finished(NamedTuple):
    """How an object with a TTL ended: ``content`` is the hash of what was declared, ``expires`` is RFC 3339."""

    succeeded: bool
    content: str
    expires: str


class InventoryEntry(NamedTuple):
    """What is known of an object in the inventory."""

    version: str
    """The API version it was applied at."""
    uid: str = ""
    """Empty until the object was observed."""
    finished: Finished | None = None
    """How it ended, where its TTL deletes it then."""
    applied: str = ""
    """The digest of the state that was applied last, see ``plan.applied``; empty where none is known."""
    permitted: str = ""
    """
    The digests of specs that gitsync itself may carry out (Agents and systems), separated by a space.

    They are two while one spec is being replaced by another; empty where every spec may be.
    """


@dataclass(frozen=True, slots=True)
class Inventory:
    """An immutable mapping of refs to what is held; it is written wider before an apply and narrower after a prune."""

    entries: Mapping[ObjectRef, InventoryEntry] = field(default_factory=dict)
    _status: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The members of the status that keep it, once they are known."""

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self.entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ObjectRef]:
        return iter(self.entries)

    def has(self, ref: ObjectRef, version: str, uid: str) -> bool:
        """Whether it holds exactly this live object, which has not finished."""
        entry = self.entries.get(ref)
        return entry is not None and (entry.version, entry.uid, entry.finished) == (version, uid, None)

    def widened(self, entries: Mapping[ObjectRef, InventoryEntry]) -> Inventory:
        """
        Return the inventory with these entries added, the identical one where it has them.

        A known uid or applied state is never forgotten for an unknown one. An object that is written has not finished.
        """
        added = {}
        for ref, held in entries.items():
            known = self.entries.get(ref, InventoryEntry(""))
            # without ``finished``: what is written now runs again
            entry = InventoryEntry(
                held.version,
                held.uid or known.uid,
                applied=held.applied or known.applied,
                permitted=_joined(known.permitted, held.permitted),
            )
            if ref not in self.entries or entry != known:
                added[ref] = entry
        return Inventory({**self.entries, **added}) if added else self

    def with_entries(self, entries: Mapping[ObjectRef, InventoryEntry]) -> Inventory:
        """Return the inventory with these entries instead of those it has."""
        return Inventory({**self.entries, **entries})

    def without(self, refs: Iterable[ObjectRef]) -> Inventory:
        """Return the inventory without these refs."""
        gone = frozenset(refs)
        return Inventory({ref: held for ref, held in self.entries.items() if ref not in gone})

    def to_status(self) -> dict[str, Any]:
        """
        Return the members of a status that keep it: ``inventory``, sorted, or ``packedInventory`` where that is long.

        An object may have 1.5 MiB; 10,000 entries have 1.3 MB as a list, and less than 0.5 MB packed.
        """
        # Filled on first use: the entries never change, and each write of the status needs the members.
        if not self._status:
            self._status.update(_packed(self.entries))
        return self._status

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> Inventory:
        """Read what ``to_status`` wrote into a status."""
        packed = status.get("packedInventory")
        return _UNPACKED.get(str(packed)) if packed else cls(_parsed(status.get("inventory") or ()))


def _packed(held: Mapping[ObjectRef, InventoryEntry]) -> dict[str, Any]:
    entries = [
        {
            "id": ref.path,
            "version": entry.version,
            **({"uid": entry.uid} if entry.uid else {}),
            **({"finished": entry.finished._asdict()} if entry.finished else {}),
            **({"applied": entry.applied} if entry.applied else {}),
            **({"permitted": entry.permitted} if entry.permitted else {}),
        }
        # Sorted: an inventory that did not change gives the same text, so that the status need not be written.
        for ref, entry in sorted(held.items())
    ]
    if len(entries) <= _LISTED:
        return {"inventory": entries} if entries else {}
    import orjson  # late: rendering needs no JSON, and starts sooner without

    return {"packedInventory": base64.b64encode(zlib.compress(orjson.dumps(entries))).decode()}


def _parsed(entries: Iterable[Mapping[str, Any]]) -> dict[ObjectRef, InventoryEntry]:
    return {ObjectRef.from_path(str(entry["id"])): _entry(entry) for entry in entries}


def _entry(stored: Mapping[str, Any]) -> InventoryEntry:
    end = stored.get("finished")
    finished = Finished(bool(end["succeeded"]), str(end["content"]), str(end["expires"])) if end else None
    return InventoryEntry(
        # A status of an earlier version lacks later members; empty means unknown for each of them.
        str(stored.get("version", "")),
        str(stored.get("uid", "")),
        finished,
        str(stored.get("applied", "")),
        str(stored.get("permitted", "")),
    )


def _joined(known: str, added: str) -> str:
    """Return the digests of both, each once."""
    return " ".join(dict.fromkeys((*known.split(), *added.split())))


class _UnpackedInventories:
    """
    The long inventories that were read last, by their text, since each reconcile reads the same one.

    A sync writes a new text with each batch: it takes the place of the one before of its Application, which is known by
    an object of both.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_text: Mapping[str, Inventory] = {}

    def get(self, text: str) -> Inventory:
        """Return the inventory of a text; raise ValueError for one that is not valid."""
        known = self._by_text
        inventory = known.get(text)
        if inventory is None:
            inventory = _unpacked(text)
            first = next(iter(inventory), None)
            others = [(other, held) for other, held in known.items() if first not in held.entries]
            # replaced as a whole, since threads read it without a lock
            self._by_text = dict([*others[1 - self._size :], (text, inventory)])
        return inventory


_UNPACKED: Final = _UnpackedInventories(_KEPT)


def _unpacked(text: str) -> Inventory:
    content = zlib.decompressobj().decompress(base64.b64decode(text), _LONGEST)
    inventory = Inventory(_parsed(json.loads(content)))
    # The text is known already: an inventory that does not change is never packed again.
    inventory._status["packedInventory"] = text
    return inventory
