"""The objects whose changes enqueue Applications."""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet

from gitsync.objects.ref import ObjectRef
from gitsync.state.index import KeysByRef


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

    def forget(self, key: str) -> None:
        """Remove a deleted Application."""
        with self._lock:
            self._tracked.remove(key)
