"""Server-sent events: what changed, as hints to fetch a page again; never data that a page does not show."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial

import orjson
from fastapi import APIRouter, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from gitsync.ports import StateReader

_BEAT = 0.25
"""Seconds between polls: at most four updates a second for each row."""
# below the idle timeout of proxies, which is 60 s for nginx
_HEARTBEAT = 15.0
_PATIENCE = 20.0
"""Seconds a client may stall before it is disconnected."""
_CLIENTS = 512
"""Streams at once: half of the connections are left for pages."""


def router(
    view: StateReader,
    seen_by: Callable[[Request], StateReader],
    may_stay: Callable[[Request], bool],
    *,
    replica: str = "",
    patience: float = _PATIENCE,
    clients: int = _CLIENTS,
    heartbeat: float = _HEARTBEAT,
) -> APIRouter:
    """
    Return the route ``/live``: ids to resume from, ``reset`` when they are too old, a comment as heartbeat.

    ``seen_by`` returns the state as the user of a request sees it now. ``may_stay`` tells whether a request would still
    be let in, asked once in each ``heartbeat`` (seconds): a stream outlasts neither its session nor its token for long.
    ``replica`` is sent first: a page that another process made has other ids, and may be behind.
    """
    routes = APIRouter()
    feed = Feed(view, heartbeat, replica)

    @routes.get("/live")
    async def live(
        request: Request, after: int = 0, last_event_id: str = Header("", alias="Last-Event-ID")
    ) -> Response:
        # a soft limit: a stream counts itself once it is started
        if feed.listeners >= clients:
            return PlainTextResponse("Too many live pages; try again later.", 503, headers={"Retry-After": "30"})
        # isdigit alone accepts digits such as ², which int() refuses
        known = last_event_id.isascii() and last_event_id.isdecimal()
        # EventSource sends the header when it reconnects: newer than the position in its URL
        position = int(last_event_id[:18]) if known else after
        messages = feed.messages(position, partial(seen_by, request), partial(may_stay, request))
        return EventStreamResponse(messages, patience)

    return routes


class Feed:
    """
    Send what changed to any number of browsers.

    One task polls the state, and only while there are listeners. A listener holds a position and nothing else: what
    it missed is read from the ring of events that the engine keeps anyway, so a slow one costs no memory.
    """

    def __init__(self, view: StateReader, heartbeat: float = _HEARTBEAT, replica: str = "") -> None:
        self._view = view
        self._heartbeat = heartbeat
        self._replica = replica
        self._news = asyncio.Event()
        self._newest = 0
        self._batches: dict[int, bytes] = {}
        self._watch: asyncio.Task[None] | None = None
        self.listeners = 0

    @property
    def is_watching(self) -> bool:
        """Whether the state is polled."""
        return self._watch is not None

    async def messages(
        self, position: int, view_of: Callable[[], StateReader], may_stay: Callable[[], bool]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a listener at this position, who sees this state, has to be sent, while it may stay."""
        self.listeners += 1
        if self._watch is None:
            self._newest = self._view.bounds[1]
            self._watch = asyncio.create_task(self._publish_batches())
        try:
            # at once: GZipMiddleware holds the head back until the body begins
            yield f": connected\nevent: replica\ndata: {self._replica}\n\n".encode()
            oldest, newest = self._view.bounds
            # ids begin at zero with the process: this browser was served by an earlier one
            if position > newest:
                position = newest
                yield _reset(newest)
            checked = time.monotonic()
            while True:
                news = self._news
                if time.monotonic() - checked >= self._heartbeat:
                    # in a thread: it asks a database
                    if not await run_in_threadpool(may_stay):
                        return
                    checked = time.monotonic()
                if position < self._newest:
                    oldest = self._view.bounds[0]
                    previous = position
                    position = self._newest
                    # what is older than the ring of events is unknown: the browser has to fetch everything
                    message = _reset(position) if previous + 1 < oldest else self._message(previous, view_of())
                    if message:
                        yield message
                    continue
                try:
                    await asyncio.wait_for(news.wait(), self._heartbeat)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            # also where the browser left: aclose() ends the generator here
            self.listeners -= 1
            if not self.listeners and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    async def _publish_batches(self) -> None:
        while True:
            newest = self._view.bounds[1]
            if newest > self._newest:
                self._newest = newest
                self._batches.clear()
                # replaced, not cleared: every listener that waits wakes, and the next one waits for the next batch
                news = self._news
                self._news = asyncio.Event()
                news.set()
            await asyncio.sleep(_BEAT)

    def _message(self, position: int, view: StateReader) -> bytes:
        """Return one message with one entry for each application; those at one position who see all share it."""
        # for one user: what it may see is not that of another
        if view is not self._view:
            return self._batch(position, view)
        if position not in self._batches:
            self._batches[position] = self._batch(position, view)
        return self._batches[position]

    def _batch(self, position: int, view: StateReader) -> bytes:
        # up to the id of this message: what came later is sent with the next one
        events = view.events(position, limit=self._newest - position)
        latest = {event.application: event.kind for event in events}
        data = orjson.dumps([{"app": app, "kind": kind} for app, kind in latest.items()]).decode()
        return f"event: changed\nid: {self._newest}\ndata: {data}\n\n".encode() if latest else b""


def _reset(newest: int) -> bytes:
    return f"event: reset\nid: {newest}\ndata: \n\n".encode()


class EventStreamResponse(Response):
    """A response that streams events until the browser disconnects or reads nothing for too long."""

    media_type = "text/event-stream"

    def __init__(self, messages: AsyncGenerator[bytes, None], patience: float) -> None:
        # nginx would hold events back until its buffer is full
        super().__init__(headers={"X-Accel-Buffering": "no"})
        # Response set that of an empty body
        del self.headers["content-length"]
        self._messages = messages
        self._patience = patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        # send() does not report that the client left: only receive() does
        tasks = [asyncio.create_task(self._send(send)), asyncio.create_task(_left(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            # waits for the generator to end, which counts its listener there
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        try:
            async for message in self._messages:
                async with asyncio.timeout(self._patience):
                    await send({"type": "http.response.body", "body": message, "more_body": True})
            # the session has ended: the browser reconnects, is refused, and leads to the sign-in
            await send({"type": "http.response.body"})
        finally:
            # "async for" does not close a generator that it leaves by an exception
            await self._messages.aclose()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
