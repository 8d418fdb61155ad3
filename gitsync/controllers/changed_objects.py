"""ChangedObjects: which objects of an Application changed since it was reconciled last."""

from __future__ import annotations

import threading

from gitsync.objects.ref import ObjectRef


class ChangedObjects:
    """Collect changed objects by Application until a reconcile takes them. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: dict[str, set[ObjectRef]] = {}

    def add(self, key: str, ref: ObjectRef) -> None:
        """Store that an object of an Application changed."""
        with self._lock:
            self._changed.setdefault(key, set()).add(ref)

    def take(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects of an Application that changed since the last call."""
        with self._lock:
            return frozenset(self._changed.pop(key, ()))
