"""Server-sent events: what changed, as hints to fetch a page again; never data that a page does not show."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Header, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from gitsync.ports import StateEvent, View

_BEAT = 0.25
"""Seconds between looks: at most four updates a second for each row."""
_HEARTBEAT = 15.0


def router(view: View) -> APIRouter:
    """Return the route ``/live``: ids to resume from, ``reset`` when they are too old, a comment as heartbeat."""
    routes = APIRouter()

    @routes.get("/live", response_class=EventSourceResponse)
    async def live(
        request: Request, after: int = 0, last_event_id: str = Header("", alias="Last-Event-ID")
    ) -> AsyncIterator[ServerSentEvent]:
        position = int(last_event_id) if last_event_id.isdigit() else after
        oldest, newest = view.bounds
        if position > newest or position + 1 < oldest:
            position = newest
            yield ServerSentEvent(event="reset", id=str(newest), data="")
        silent = 0.0
        yield ServerSentEvent(comment="connected")
        while not await request.is_disconnected():
            events = view.events(position)
            if events:
                position, silent = events[-1].id, 0.0
                yield ServerSentEvent(event="changed", id=str(position), data=_merged(events))
            elif silent >= _HEARTBEAT:
                silent = 0.0
                yield ServerSentEvent(comment="still here")
            await asyncio.sleep(_BEAT)
            silent += _BEAT

    return routes


def _merged(events: tuple[StateEvent, ...]) -> list[dict[str, str]]:
    """Return one entry for each application, with its latest message."""
    latest = {event.application: event for event in events}
    return [{"app": event.application, "kind": event.kind} for event in latest.values()]
