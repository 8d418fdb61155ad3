"""The objects whose changes enqueue Applications."""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet

from gitsync.objects.ref import GroupKind, ObjectRef


class KeysByRef:
    """Find keys by object, and objects by key. The caller holds a lock."""

    def __init__(self) -> None:
        self._keys: dict[ObjectRef, frozenset[str]] = {}
        self._refs: dict[str, frozenset[ObjectRef]] = {}
        self._alone: dict[str, frozenset[str]] = {}
        """Each key as a set: nearly all objects have one key, and a set for each of them takes 216 bytes."""

    def has(self, key: str) -> bool:
        """Whether objects of a key were stored, perhaps none."""
        return key in self._refs

    def refs(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects of a key."""
        return self._refs.get(key, frozenset())

    def keys(self, ref: ObjectRef) -> frozenset[str]:
        """Return the keys of an object."""
        return self._keys.get(ref, frozenset())

    def keys_of(self, of: GroupKind) -> frozenset[str]:
        """Return the keys of all objects of a kind."""
        return frozenset(key for ref, keys in self._keys.items() if ref.of == of for key in keys)

    def set(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """Store the objects of a key instead of its previous ones."""
        previous = self.refs(key)
        for ref in previous - refs:
            # frozensets, replaced as a whole: readers iterate over them without the lock
            remaining = self._keys[ref] - {key}
            if remaining:
                self._keys[ref] = self._shared(remaining)
            else:
                # objects that no key has any more would accumulate
                del self._keys[ref]
        for ref in refs - previous:
            self._keys[ref] = self._shared(self.keys(ref) | {key})
        self._refs[key] = refs

    def _shared(self, keys: frozenset[str]) -> frozenset[str]:
        """Return an equal set, the identical one for a single key."""
        return self._alone.setdefault(next(iter(keys)), keys) if len(keys) == 1 else keys

    def remove(self, key: str) -> None:
        """Remove a key with its objects."""
        self.set(key, frozenset())
        del self._refs[key]
        self._alone.pop(key, None)


class TrackedObjects:
    """The objects that each Application tracks: those it declares or holds, and those that it names. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tracked = KeysByRef()

    def track(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """Track exactly these objects for an Application."""
        with self._lock:
            self._tracked.set(key, refs)

    def track_more(self, key: str, refs: AbstractSet[ObjectRef]) -> None:
        """Track these objects too."""
        with self._lock:
            tracked = self._tracked.refs(key)
            # the common case is that all are tracked, and then no set is built
            if not refs <= tracked:
                self._tracked.set(key, tracked | refs)

    def of(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects tracked for an Application."""
        with self._lock:
            return self._tracked.refs(key)

    def applications_for(self, ref: ObjectRef) -> frozenset[str]:
        """Return the Applications that track an object."""
        with self._lock:
            return self._tracked.keys(ref)

    def applications_of(self, of: GroupKind) -> frozenset[str]:
        """Return the Applications that track an object of a kind."""
        with self._lock:
            return self._tracked.keys_of(of)

    def forget(self, key: str) -> None:
        """Remove a deleted Application."""
        with self._lock:
            self._tracked.remove(key)
