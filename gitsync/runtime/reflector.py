"""Reflector: keep a local copy of a collection true by list and watch."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import random
from typing import Any, Protocol

from gitsync.errors import OUTAGE_PAUSE, GitsyncError, GroupUnavailable, TerminalError, TransientError, detached
from gitsync.runtime.workqueue import Backoff

_log = logging.getLogger(__name__)

Item = dict[str, Any]

# seconds after which a watch counts as successful and resets the backoff; an event does so at once
_USEFUL = 5.0


class Expired(TransientError):
    """The server no longer knows that resourceVersion: list again (HTTP 410)."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A complete collection, as it was at ``version``."""

    items: Mapping[str, Item]
    version: str


@dataclass(frozen=True, slots=True)
class Event:
    """One watch event: ADDED, MODIFIED, DELETED or BOOKMARK; ``version`` is the resourceVersion after it."""

    type: str
    key: str
    item: Item
    version: str


class Watch(Protocol):
    """A running watch: events until the server ends it, or it is closed."""

    def __iter__(self) -> Iterator[Event]: ...

    def close(self) -> None:
        """End the iteration, from any thread."""
        ...


class Collection(Protocol):
    """What a reflector follows."""

    def list(self) -> Listing:
        """Return the whole collection; raise rather than return a part."""
        ...

    def watch(self, version: str) -> Watch:
        """Follow the changes after ``version``; raise Expired, here or in the iteration, when it is too old."""
        ...


class Store(Protocol):
    """Where a reflector puts what it learns; called from one thread."""

    def replace(self, items: Mapping[str, Item], version: str) -> None:
        """Take this as the whole collection as it was at ``version``."""
        ...

    def put(self, key: str, item: Item) -> None:
        """Take this as the item's newest state."""
        ...

    def remove(self, key: str, item: Item) -> None:
        """Drop the item; ``item`` is its last state."""
        ...


class Reflector:
    """
    Follow one collection in one thread until stopped.

    Lists once, then watches from there; a watch that ends is taken up where it stood, and only a version the
    server has forgotten lists again. Failures, and watches that end at once, back off with jitter. ``error`` says
    why the copy may be behind, or is None; ``on_state`` is called when it becomes None or of another type, and
    after a first list that did not arrive in time.
    """

    def __init__(
        self,
        name: str,
        collection: Collection,
        store: Store,
        *,
        backoff: Backoff | None = None,
        on_state: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.error: GitsyncError | None = None
        self._collection = collection
        self._store = store
        self._backoff = backoff or Backoff(initial=0.2, max=OUTAGE_PAUSE)
        self._on_state = on_state
        self._failures = 0
        self._useful = False
        self._version = ""
        self._stop = threading.Event()
        self._wake = threading.Event()
        """Set to end the wait after a failure."""
        self._synced = threading.Event()
        self._answered = threading.Event()
        # whether a caller gave up waiting for the first list
        self._is_awaited = False
        self._open: Watch | None = None
        self._requests = threading.Lock()
        """Held where a list or the stop is requested, and where the thread takes a request: none may be lost."""
        self._relist_delay: float | None = None
        """Seconds until the requested list, None where none is requested."""
        self._thread = threading.Thread(target=self._run, name=f"watch-{name}", daemon=True)

    def _is_interrupted(self) -> bool:
        """Whether the watch under way has to end."""
        return self._stop.is_set() or self._is_relist_requested()

    def _is_relist_requested(self) -> bool:
        # a method: the attribute changes at any time, which a type checker does not expect of an attribute
        return self._relist_delay is not None

    def _prepare_relist(self) -> None:
        """Wait until the requested list is due, and drop the version to watch from."""
        with self._requests:
            delay = self._relist_delay
            if delay is None:
                return
            # before the wait: a later request may be about a later state
            self._relist_delay = None
            if not self._stop.is_set():
                self._wake.clear()
        self._stop.wait(delay)
        self._version = ""

    @property
    def is_synced(self) -> bool:
        """Whether one complete list has arrived, so absence means absence."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float) -> bool:
        """Wait for the first complete list, or for an answer that waiting will not change."""
        self._is_awaited = not self._answered.wait(timeout) or self._is_awaited
        return self.is_synced

    def start(self) -> None:
        """Start following."""
        self._thread.start()

    def stop(self) -> None:
        """End the watch under way, and soon the thread."""
        with self._requests:
            self._stop.set()
            self._wake.set()
        watch = self._open
        if watch is not None:
            watch.close()

    def relist(self, delay: float) -> None:
        """List again after ``delay`` seconds: what the watch reported may not be as the server has it."""
        with self._requests:
            self._relist_delay = delay
            self._wake.set()  # a list that failed may wait for seconds otherwise
        watch = self._open
        if watch is not None:
            watch.close()

    def join(self, timeout: float) -> None:
        """Wait for the thread to end."""
        self._thread.join(timeout)

    def _run(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            self._useful = False
            retry_after = None
            self._prepare_relist()
            try:
                if not self._version:
                    self._list()
                self._follow()
            except Expired:  # the API server keeps changes for about five minutes (etcd's compaction)
                self._version = ""
            except GitsyncError as error:
                retry_after = getattr(error, "retry_after", None)
                self._fail(error)
            except Exception as error:
                _log.exception("watch of %s failed", self.name)
                self._fail(TransientError(f"watch failed: {error}"))
                self._version = ""  # whatever it was, only a new list is certain
            if self._is_relist_requested():
                continue  # at once, whatever failed: the reason for the list may be that it works again
            if self._useful or time.monotonic() - began >= _USEFUL:
                self._failures = 0
            else:  # a watch that ends at once must not be restarted in a hot loop
                self._failures += 1
                delay = self._backoff.delay(self._failures, random())
                self._wake.wait(retry_after if retry_after is not None else delay)

    def _list(self) -> None:
        listing = self._collection.list()
        self._store.replace(listing.items, listing.version)
        self._version = listing.version
        self._succeed()
        if not self._synced.is_set():
            self._synced.set()
            self._answered.set()
            if self._is_awaited:
                self._on_state()

    def _follow(self) -> None:
        watch = self._collection.watch(self._version)
        self._open = watch
        try:
            self._succeed()
            if self._is_interrupted():
                return  # stop() may not have seen this watch yet
            for event in watch:
                if self._is_interrupted():
                    return
                self._useful = True
                self._version = event.version  # also of a bookmark, which has no object
                if event.type in ("ADDED", "MODIFIED"):
                    self._store.put(event.key, event.item)
                elif event.type == "DELETED":
                    self._store.remove(event.key, event.item)
        finally:
            self._open = None
            watch.close()

    def _succeed(self) -> None:
        if self.error is not None:
            self.error = None
            self._on_state()

    def _fail(self, error: GitsyncError) -> None:
        if self._failures == 0 and self.is_synced:
            return  # watches break now and then; only one that cannot be taken up again leaves the copy in doubt
        changed = type(self.error) is not type(error) and not self._stop.is_set()
        self.error = detached(error)
        if isinstance(error, TerminalError | GroupUnavailable):
            self._answered.set()
        if changed:
            # a warning: what was seen of this kind may be out of date from now on
            _log.warning("watch of %s: %s", self.name, error)
            self._on_state()
