"""Workqueue: keys to reconcile, each queued once, processed in batches on the server's thread."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from gitsync.sandbox.controllers.object_meta import Key
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import Timers

# Keys between two turns of the server's loop: requests are answered meanwhile.
_BATCH = 10
# client-go starts at 5 ms and ends at 1000 s; a demo needs neither.
_FIRST_RETRY = 0.05
_LAST_RETRY = 30.0


class KeyReconciler(Protocol):
    """What the queue calls."""

    @property
    def name(self) -> str:
        """The name by which the reconciler is paused."""
        ...

    def reconcile(self, key: Key) -> None:
        """Act on the state as it is now; an ApiError means: again, later."""
        ...


class Queue:
    """
    Keep dirty keys, each once and in order, and reconcile them in turns on the server's thread.

    A refused reconcile is repeated with growing delay. The keys of a paused controller wait.
    """

    def __init__(self, timers: Timers) -> None:
        self.paused: set[str] = set()
        self._timers = timers
        self._dirty: OrderedDict[tuple[KeyReconciler, Key], None] = OrderedDict()
        self._delayed: dict[tuple[KeyReconciler, Key], tuple[float, Callable[[], None]]] = {}
        self._failures: dict[tuple[KeyReconciler, Key], int] = {}
        self._scheduled = False

    def add(self, reconciler: KeyReconciler, key: Key) -> None:
        """Enqueue a key; a key that is already queued is queued once."""
        self._dirty[reconciler, key] = None
        self.wake()

    def add_after(self, reconciler: KeyReconciler, key: Key, seconds: float) -> None:
        """Enqueue a key after a delay, unless it is scheduled earlier."""
        due = self._timers.now() + seconds
        planned = self._delayed.get((reconciler, key))
        if planned is not None:
            if planned[0] <= due:
                return
            # Cancel the later timer: each key has at most one.
            planned[1]()
        cancel = self._timers.call_later(seconds, lambda: self._enqueue_delayed(reconciler, key))
        self._delayed[reconciler, key] = (due, cancel)

    def _enqueue_delayed(self, reconciler: KeyReconciler, key: Key) -> None:
        self._delayed.pop((reconciler, key), None)
        self.add(reconciler, key)

    def wake(self) -> None:
        """Schedule the next batch."""
        if not self._scheduled:
            self._scheduled = True
            self._timers.call_later(0, self._run_batch)

    def _run_batch(self) -> None:
        """Reconcile some keys, then let the server answer requests before the next batch."""
        self._scheduled = False
        try:
            # A copy, because reconciles add keys while it is iterated.
            for item in list(islice(self._ready(), _BATCH)):
                del self._dirty[item]
                self._reconcile(*item)
        finally:
            # Also after an exception, or the queue would stop.
            if next(self._ready(), None):
                self.wake()

    def _ready(self) -> Iterator[tuple[KeyReconciler, Key]]:
        return (item for item in self._dirty if item[0].name not in self.paused)

    def _reconcile(self, reconciler: KeyReconciler, key: Key) -> None:
        try:
            reconciler.reconcile(key)
        # Refused by admission, quota or a conflict: the state may be another one later.
        except ApiError:
            failures = self._failures.get((reconciler, key), 0)
            self._failures[reconciler, key] = failures + 1
            self.add_after(reconciler, key, min(_FIRST_RETRY * 2**failures, _LAST_RETRY))
        else:
            self._failures.pop((reconciler, key), None)
