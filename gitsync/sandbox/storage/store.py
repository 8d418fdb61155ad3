"""
The store: every object, its resourceVersion, and the recent past that watches and pages read.

One thread uses it. A commit is durable before anyone hears of it: it goes to the journal first, then into
memory, then to the watchers. Objects are never changed in place.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import orjson

from gitsync.objects.manifest import Manifest, at

HISTORY = 4_000
"""How many events a collection keeps; a watch or page that needs older ones gets 410."""

FIRST_REVISION = 1_000
"""Where a fresh store starts counting, so that low resourceVersions are as expired as in a used cluster."""


class Stored:
    """One version of an object: the dict and, after the first read, its JSON."""

    __slots__ = ("_json", "obj", "revision")

    def __init__(self, obj: Manifest, revision: int, json: bytes | None = None) -> None:
        self.obj = obj
        self.revision = revision
        self._json = json

    @property
    def json(self) -> bytes:
        """The object as compact JSON, encoded once."""
        if self._json is None:
            self._json = orjson.dumps(self.obj)
        return self._json


class Event:
    """One change: ``old`` is None for a creation, ``new`` for a deletion, where ``last`` is the final version."""

    __slots__ = ("key", "last", "new", "old", "revision")

    def __init__(self, revision: int, key: str, new: Stored | None, old: Stored | None, last: Stored) -> None:
        self.revision = revision
        self.key = key
        self.new = new
        self.old = old
        self.last = last


class Journal(Protocol):
    """Where commits are made durable."""

    def write(self, resource: str, key: str, revision: int, body: bytes | None) -> None:
        """Keep the object (None: remove it) and the revision; return once a kill cannot lose them."""
        ...


class Gone(Exception):
    """The state asked for is older than what is kept."""


class Collection:
    """
    The objects of one resource by key ``namespace/name`` (cluster-scoped: ``/name``), in key order.

    ``floor`` is the oldest revision from which the history is complete.
    """

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.floor = floor
        self.objects: dict[str, Stored] = {}
        self.history: deque[Event] = deque()
        self.watchers: dict[object, Callable[[Event], None]] = {}
        self._keys: list[str] = []

    def keys(self, namespace: str = "") -> list[str]:
        """Return the keys of a namespace, or all, in the order of the API server's lists."""
        if not namespace:
            return self._keys
        low = bisect_left(self._keys, f"{namespace}/")
        return self._keys[low : bisect_left(self._keys, f"{namespace}0", low)]

    def select(self, namespace: str = "") -> Iterator[Stored]:
        """Yield the objects of a namespace, or all, in order."""
        return (self.objects[key] for key in self.keys(namespace))

    def at_revision(self, revision: int) -> dict[str, Stored]:
        """Return all objects as they were at a revision; raise Gone when that is no longer known."""
        if revision < self.floor:
            raise Gone
        objects = dict(self.objects)
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            if event.old is None:
                objects.pop(event.key, None)
            else:
                objects[event.key] = event.old
        return objects

    def since(self, revision: int) -> list[Event]:
        """Return the events after a revision; raise Gone when some are no longer kept."""
        if revision < self.floor:
            raise Gone
        newer: list[Event] = []
        for event in reversed(self.history):
            if event.revision <= revision:
                break
            newer.append(event)
        newer.reverse()
        return newer

    def forget(self, revision: int) -> None:
        """Drop the history, as a compaction does: a watch that continues from before ``revision`` gets 410."""
        self.history.clear()
        self.floor = revision

    def put(self, key: str, stored: Stored) -> None:
        """Place a version in memory."""
        if key not in self.objects:
            insort(self._keys, key)
        self.objects[key] = stored

    def drop(self, key: str) -> None:
        """Take an object out of memory."""
        del self.objects[key]
        del self._keys[bisect_left(self._keys, key)]

    def record(self, event: Event) -> None:
        """Append to the history and tell the watchers."""
        if len(self.history) >= HISTORY:
            self.floor = self.history.popleft().revision
        self.history.append(event)
        for tell in list(self.watchers.values()):
            tell(event)


class Store:
    """All collections and the one revision they share."""

    def __init__(self, journal: Journal | None = None, revision: int = FIRST_REVISION) -> None:
        self.revision = revision
        self._floor = revision
        self._journal = journal
        self._collections: dict[str, Collection] = {}
        self._owned: dict[str, set[tuple[str, str]]] = {}
        self._observers: list[Callable[[str, Event], None]] = []

    def collection(self, resource: str) -> Collection:
        """Return the collection of a resource (``group/plural``), made when it is new."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(resource, self._floor)
        return found

    def collections(self) -> tuple[Collection, ...]:
        """Return every collection that holds or held something."""
        return tuple(self._collections.values())

    def observe(self, observer: Callable[[str, Event], None]) -> None:
        """Call the observer with the resource and the event after each commit."""
        self._observers.append(observer)

    def load(self, resource: str, key: str, revision: int, body: bytes) -> None:
        """Take over an object from the journal at start."""
        stored = Stored(orjson.loads(body), revision, body)
        self.collection(resource).put(key, stored)
        self._index(resource, key, None, stored)

    def write(self, resource: str, key: str, obj: Manifest) -> Stored:
        """
        Commit a new version and return it with its resourceVersion.

        ``obj`` and its metadata must be the caller's own copies; the rest may be shared.
        """
        collection = self.collection(resource)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        stored = Stored(obj, self.revision)
        if self._journal is not None:
            self._journal.write(resource, key, self.revision, stored.json)
        old = collection.objects.get(key)
        collection.put(key, stored)
        self._publish(collection, Event(self.revision, key, stored, old, stored))
        return stored

    def remove(self, resource: str, key: str) -> Stored:
        """Commit a deletion and return the last version, which carries the revision of the deletion."""
        collection = self.collection(resource)
        old = collection.objects[key]
        self.revision += 1
        if self._journal is not None:
            self._journal.write(resource, key, self.revision, None)
        final = dict(old.obj)
        final["metadata"] = {**final["metadata"], "resourceVersion": str(self.revision)}
        collection.drop(key)
        stored = Stored(final, self.revision)
        self._publish(collection, Event(self.revision, key, None, old, stored))
        return stored

    def owned_by(self, uid: str) -> list[tuple[str, Stored]]:
        """Return the objects, with their resources, that name this uid as an owner."""
        return [
            (resource, self._collections[resource].objects[key]) for resource, key in sorted(self._owned.get(uid, ()))
        ]

    def _publish(self, collection: Collection, event: Event) -> None:
        self._index(collection.name, event.key, event.old, event.new)
        collection.record(event)
        for observer in self._observers:
            observer(collection.name, event)

    def _index(self, resource: str, key: str, old: Stored | None, new: Stored | None) -> None:
        before = _owners(old)
        after = _owners(new)
        if before == after:
            return
        for uid in before - after:
            held = self._owned[uid]
            held.discard((resource, key))
            if not held:
                del self._owned[uid]
        for uid in after - before:
            self._owned.setdefault(uid, set()).add((resource, key))


_NO_OWNERS: frozenset[str] = frozenset()


def _owners(stored: Stored | None) -> frozenset[str]:
    references = at(stored.obj, "metadata", "ownerReferences") if stored is not None else None
    if not references:
        return _NO_OWNERS
    return frozenset(str(reference.get("uid", "")) for reference in references)
