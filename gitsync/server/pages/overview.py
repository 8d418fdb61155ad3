"""Home: what needs attention, what happened since the last visit, what runs now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.backend import Backend
from gitsync.server.changes import Position, changes
from gitsync.server.pages.dependencies import PagesOf
from gitsync.server.rows.applications import (
    HEALTH_STATES,
    SYNC_STATES,
    app_rows,
    counts,
    is_busy,
    needs_attention,
    newest_syncs,
    problems,
)
from gitsync.server.rows.applicationsets.sets import set_problems
from gitsync.server.rows.query import Query
from gitsync.server.rows.timeline import Entry

router = APIRouter()

_LISTED, _OUTCOMES, _RECENT = 12, 8, 100
_VISIT: Final = "gitsync-visit"
_PAUSE = timedelta(minutes=30)
"""Time without a request after which the next one is another visit."""
_FIRST = timedelta(hours=24)
"""How far back a first visit shows."""
_HAPPENED: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("commit", ("sync",)),
    ("drift corrected", ("heal",)),
    ("open drift", ("drift",)),
    ("decision", ("approve", "reject")),
    ("revert", ("revert",)),
    ("suspension", ("suspend", "resume")),
    ("refusal", ("refused",)),
)
"""The words of the page for kinds of changes."""
_COOKIE_SECONDS = 90 * 86400


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show what needs attention, what happened since the last visit, and what runs now."""
    now, backend = pages.engine.clock.now(), pages.engine
    views = backend.view.applications()
    found = sorted(app_rows(views), key=lambda row: (row.rank, row.key))
    attention = problems(row for row in found if needs_attention(row))
    boundary = _boundary(request.cookies.get(_VISIT, ""), now)
    recent, outcomes = _since(backend, boundary), backend.records.history(limit=_OUTCOMES)
    response = pages.show(
        request,
        "overview.html",
        total=len(found),
        matching=sum(row.state == "Synced" for row in found),
        sync_counts=counts(found, "sync", SYNC_STATES),
        health_counts=counts(found, "health", HEALTH_STATES),
        suspended=sum(row.is_suspended for row in found),
        attention=attention[:_LISTED],
        sets=set_problems(backend.sets.sets()),
        more=len(attention) - _LISTED,
        busy=[row for row in found if is_busy(row)][:_LISTED],
        rows=found[:_LISTED],
        outcomes=outcomes,
        newest=newest_syncs(outcomes, found),
        queue=backend.requests.queue_length(),
        behind=sum(row.is_behind for row in found),
        seen=max((view.seen for view in views), default=None),
        recent=recent[:_OUTCOMES],
        happened=_happened(recent),
        is_cut=len(recent) >= _RECENT,
        boundary=boundary,
        is_first_visit=_VISIT not in request.cookies,
    )
    response.set_cookie(
        _VISIT,
        f"{boundary.timestamp():.0f}.{now.timestamp():.0f}",
        max_age=_COOKIE_SECONDS,
        httponly=True,
        samesite="lax",
    )
    return response


def _boundary(cookie: str, now: datetime) -> datetime:
    """
    Return the end of the visit before this one.

    The cookie has that time and the time of the last request; after a pause the last request ended a visit.
    """
    before, _, last = cookie.partition(".")
    if not (before.isdecimal() and last.isdecimal() and len(cookie) < 40):
        return now - _FIRST
    latest = datetime.fromtimestamp(int(last) % (1 << 33), now.tzinfo)
    return latest if now - latest > _PAUSE else datetime.fromtimestamp(int(before) % (1 << 33), now.tzinfo)


def _since(backend: Backend, boundary: datetime) -> list[Entry]:
    return changes(backend, Query(since=boundary), Position(), _RECENT).entries


def _happened(entries: list[Entry]) -> list[tuple[str, int]]:
    """Return how many entries of each kind there are, by the words of the page."""
    found = [(word, sum(entry.kind in names for entry in entries)) for word, names in _HAPPENED]
    return [(word, count) for word, count in found if count]
