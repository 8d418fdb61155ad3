"""Watches: events since a resourceVersion, then live events, until the timeout or the client disconnects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass

import orjson

from gitsync.objects.manifest import Manifest
from gitsync.sandbox import errors
from gitsync.sandbox.http.listing import ListSelection
from gitsync.sandbox.http.transport.messages import Sink
from gitsync.sandbox.storage import Gone, ObjectStore, ResourceCollection, Stored, StoreEvent

# The cacher of the real server sends bookmarks about once a minute.
BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""Seconds before its end at which a short watch is sent a bookmark."""
Encode = Callable[[Stored, bool], bytes]
"""An object as this watch shows it; the flag says it is the first of the stream."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch asks for; ``since`` is None for the state of now, which comes first as ADDED."""

    since: int | None
    send_initial: bool | None
    bookmarks: bool
    seconds: float
    kind: str
    api_version: str


def read_watch_options(query: dict[str, str], kind: str, api_version: str) -> WatchOptions:
    """Return the options of a watch request; a resourceVersion that is not a number is a 500, as upstream."""
    version = query.get("resourceVersion", "")
    if version and not version.isdecimal():
        raise errors.internal(
            f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        )
    timeout = query.get("timeoutSeconds", "")
    # Random between half an hour and an hour (--min-request-timeout), so that clients do not all reconnect together.
    seconds = float(timeout) if timeout.isdecimal() and int(timeout) > 0 else random.uniform(1800, 3600)
    initial = query.get("sendInitialEvents")
    return WatchOptions(
        since=int(version) if version not in ("", "0") else None,
        send_initial=None if initial is None else initial not in ("false", "0"),
        bookmarks=query.get("allowWatchBookmarks", "") in ("true", "1"),
        seconds=seconds,
        kind=kind,
        api_version=api_version,
    )


class OpenWatch:
    """One open watch. ``drop`` and ``mute`` are for faults: cut the connection, or let it hang half open."""

    def __init__(
        self,
        store: ObjectStore,
        collection: ResourceCollection,
        selected: ListSelection,
        options: WatchOptions,
        encode: Encode,
    ) -> None:
        self._store = store
        self._collection = collection
        self._selected = selected
        self._options = options
        self._encode = encode
        self._first = True
        self._muted = False
        self._seen = 0
        self._timers: list[asyncio.TimerHandle] = []
        self._sink: Sink | None = None

    def open(self, sink: Sink) -> Callable[[], None]:
        """Begin to send; the returned function ends it."""
        self._sink = sink
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._options.seconds, self.end))
        try:
            self._send_past()
        except Gone:
            version = self._options.since
            message = f"too old resource version: {version} ({self._collection.floor})"
            self._send("ERROR", orjson.dumps(errors.expired(message).to_status()))
            # Later, because the connection has not taken the stream yet.
            loop.call_soon(self.end)
            return self.close
        self._collection.watchers[self] = self._happened
        if self._options.bookmarks:
            self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._bookmark_again))
            last = self._options.seconds - LAST_BOOKMARK_SECONDS
            if 0 < last < BOOKMARK_SECONDS:
                self._timers.append(loop.call_later(last, self._bookmark))
        return self.close

    def close(self) -> None:
        """Stop listening; the connection is the caller's."""
        self._collection.watchers.pop(self, None)
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def end(self) -> None:
        """End the stream in order."""
        self.close()
        if self._sink is not None:
            self._sink.end()

    def drop(self) -> None:
        """Cut the connection."""
        self.close()
        if self._sink is not None:
            self._sink.abort()

    def mute(self) -> None:
        """Send nothing more but keep the connection open, as a dead load balancer does."""
        self._muted = True
        for timer in self._timers:
            timer.cancel()

    def expire(self) -> None:
        """Send the 410 for a resourceVersion that is too old, and end."""
        message = f"too old resource version: {self._seen} ({self._store.revision})"
        self._send("ERROR", orjson.dumps(errors.expired(message).to_status()))
        self.end()

    def _send_past(self) -> None:
        options = self._options
        if options.since is None or options.send_initial:
            if options.send_initial is not False:
                for stored in list(self._collection.select(self._selected.namespace)):
                    if self._selected.has(stored.obj):
                        self._send_object("ADDED", stored)
            self._seen = self._store.revision
            if options.send_initial and options.bookmarks:
                self._bookmark({"k8s.io/initial-events-end": "true"})
            return
        self._seen = options.since
        for event in self._collection.since(options.since):
            self._happened(event)

    def _happened(self, event: StoreEvent) -> None:
        # Sent with the past already.
        if event.revision <= self._seen:
            return
        self._seen = event.revision
        old = event.old if event.old is not None and self._selected.has(event.old.obj) else None
        now = event.new is not None and self._selected.has(event.new.obj)
        if now:
            self._send_object("ADDED" if old is None else "MODIFIED", event.last)
        elif old is not None:
            # An object that leaves the selection is deleted for this watch, at the revision of the change.
            self._send_object("DELETED", event.last if event.new is None else _left(old.obj, event.revision))

    def _send_object(self, kind: str, stored: Stored) -> None:
        try:
            body = self._encode(stored, self._first)
        except errors.ApiError as error:
            # An object that cannot be converted ends its watches. The write that committed it must not fail by them.
            self._send("ERROR", orjson.dumps(error.to_status()))
            self._muted = True  # nothing follows an error
            asyncio.get_running_loop().call_soon(self.end)
            return
        self._send(kind, body)
        self._first = False

    def _send(self, kind: str, body: bytes) -> None:
        if self._sink is not None and not self._muted:
            self._sink.send(b'{"type":"%b","object":%b}\n' % (kind.encode(), body))

    def _bookmark(self, annotations: dict[str, str] | None = None) -> None:
        meta: dict[str, object] = {"resourceVersion": str(self._store.revision)}
        if annotations:
            meta["annotations"] = annotations
        options = self._options
        value = {"kind": options.kind, "apiVersion": options.api_version, "metadata": meta}
        self._send("BOOKMARK", orjson.dumps(value))

    def _bookmark_again(self) -> None:
        self._bookmark()
        loop = asyncio.get_running_loop()
        self._timers = [timer for timer in self._timers if not timer.cancelled() and timer.when() > loop.time()]
        self._timers.append(loop.call_later(BOOKMARK_SECONDS, self._bookmark_again))


def _left(former: Manifest, revision: int) -> Stored:
    """Return the object as it was when it still was in the selection, at the revision it left."""
    meta = {**former["metadata"], "resourceVersion": str(revision)}
    return Stored({**former, "metadata": meta}, revision)
