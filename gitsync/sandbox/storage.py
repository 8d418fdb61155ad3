"""
The store: every object, its resourceVersion, and the recent past that watches and pages read.

One thread uses it. A commit is durable before anyone hears of it: it goes to the journal first, then into
memory, then to the watchers. Objects are never changed in place.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import orjson

from gitsync.errors import InvalidInput
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


class StoreEvent:
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


class ResourceCollection:
    """
    The objects of one resource by key ``namespace/name`` (cluster-scoped: ``/name``), in key order.

    ``floor`` is the oldest revision from which the history is complete.
    """

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.floor = floor
        self.objects: dict[str, Stored] = {}
        self.history: deque[StoreEvent] = deque()
        self.watchers: dict[object, Callable[[StoreEvent], None]] = {}
        self._keys: list[str] = []

    def keys(self, namespace: str = "") -> list[str]:
        """Return the keys of a namespace, or all, in the order of the API server's lists."""
        if not namespace:
            return self._keys
        # The next character after the slash is 0, so "namespace0" is behind the last key of the namespace.
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

    def since(self, revision: int) -> list[StoreEvent]:
        """Return the events after a revision; raise Gone when some are no longer kept."""
        if revision < self.floor:
            raise Gone
        newer: list[StoreEvent] = []
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

    def record(self, event: StoreEvent) -> None:
        """Append to the history and tell the watchers."""
        if len(self.history) >= HISTORY:
            # The dropped event is not known any more, but its result is.
            self.floor = self.history.popleft().revision
        self.history.append(event)
        for tell in list(self.watchers.values()):
            tell(event)


class ObjectStore:
    """All collections and the one revision they share."""

    def __init__(self, journal: Journal | None = None, revision: int = FIRST_REVISION) -> None:
        self.revision = revision
        self._floor = revision
        self._journal = journal
        self._collections: dict[str, ResourceCollection] = {}
        self._owned: dict[str, set[tuple[str, str]]] = {}
        self._observers: list[Callable[[str, StoreEvent], None]] = []

    def collection(self, resource: str) -> ResourceCollection:
        """Return the collection of a resource (``group/plural``), made when it is new."""
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = ResourceCollection(resource, self._floor)
        return collection

    def collections(self) -> tuple[ResourceCollection, ...]:
        """Return every collection that holds or held something."""
        return tuple(self._collections.values())

    def observe(self, observer: Callable[[str, StoreEvent], None]) -> None:
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
            # Before memory and watches: a client must not see what a kill could lose.
            self._journal.write(resource, key, self.revision, stored.json)
        old = collection.objects.get(key)
        collection.put(key, stored)
        self._publish(collection, StoreEvent(self.revision, key, stored, old, stored))
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
        self._publish(collection, StoreEvent(self.revision, key, None, old, stored))
        return stored

    def owned_by(self, uid: str) -> list[tuple[str, Stored]]:
        """Return the objects, with their resources, that name this uid as an owner."""
        return [
            (resource, self._collections[resource].objects[key]) for resource, key in sorted(self._owned.get(uid, ()))
        ]

    def _publish(self, collection: ResourceCollection, event: StoreEvent) -> None:
        self._index(collection.name, event.key, event.old, event.new)
        collection.record(event)
        for observer in self._observers:
            observer(collection.name, event)

    def _index(self, resource: str, key: str, old: Stored | None, new: Stored | None) -> None:
        old_owners = _owners(old)
        new_owners = _owners(new)
        if old_owners == new_owners:
            return
        for uid in old_owners - new_owners:
            held = self._owned[uid]
            held.discard((resource, key))
            if not held:
                del self._owned[uid]
        for uid in new_owners - old_owners:
            self._owned.setdefault(uid, set()).add((resource, key))


_NO_OWNERS: frozenset[str] = frozenset()


def _owners(stored: Stored | None) -> frozenset[str]:
    references = at(stored.obj, "metadata", "ownerReferences") if stored is not None else None
    if not references:
        return _NO_OWNERS
    return frozenset(str(reference.get("uid", "")) for reference in references)


_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""


class SqliteJournal:
    """
    Keep each commit in its own transaction.

    The write-ahead log without a sync per commit survives the death of the process, which is the promise;
    the loss of power may take the last commits, never the consistency.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1)
        try:
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # one sandbox has one file
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            self.close()
            raise InvalidInput(
                f"cannot use the sandbox's file: {error}",
                location=str(path),
                hint="stop the sandbox that has it open, or name another folder",
            ) from error
        except sqlite3.DatabaseError as error:
            self.close()
            raise InvalidInput(
                f"not a file of a sandbox: {error}", location=str(path), hint="name another folder"
            ) from error

    def revision(self) -> int | None:
        """Return the last committed revision, None in a fresh file."""
        return self._meta("revision")

    def objects(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield resource, key, revision and body of every object."""
        yield from self._connection.execute("SELECT resource, key, revision, body FROM objects")

    def secret(self, name: str, fresh: str) -> str:
        """Return a value kept under a name, storing ``fresh`` when there is none yet."""
        self._connection.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, fresh))
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0])

    def replace_secret(self, name: str, value: str) -> None:
        """Keep another value under a name."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def write(self, resource: str, key: str, revision: int, body: bytes | None) -> None:
        """Keep one commit."""
        execute = self._connection.execute
        execute("BEGIN")
        try:
            if body is None:
                execute("DELETE FROM objects WHERE resource = ? AND key = ?", (resource, key))
            else:
                execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (resource, key, revision, body))
            execute("INSERT OR REPLACE INTO meta VALUES ('revision', ?)", (revision,))
            execute("COMMIT")
        except sqlite3.Error:  # a full disk, say: this write fails, the next may succeed
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file; the log is folded into it."""
        self._connection.close()

    def _meta(self, name: str) -> int | None:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])
