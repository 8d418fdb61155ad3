"""Home: what needs attention, what happened since the last visit, what runs now."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.backend import Backend
from gitsync.server.dependencies import PagesOf
from gitsync.server.queries.applications import (
    HEALTH_STATES,
    SYNC_STATES,
    app_rows,
    counts,
    is_busy,
    needs_attention,
    problems,
    set_problems,
)
from gitsync.server.queries.filters import Filter
from gitsync.server.queries.timeline import Position, TimelineEntry, changes

router = APIRouter()

_LISTED = 12
_CHANGES = 8
_RECENT = 100
_VISIT: Final = "gitsync-visit"
_PAUSE = timedelta(minutes=30)
"""Time without a request after which the next one is another visit."""
_FIRST = timedelta(hours=24)
"""How far back a first visit shows."""
_HAPPENED: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("failed evaluation", "failed evaluations", ("evaluation",)),
    ("correction of drift", "corrections of drift", ("heal",)),
    ("application with open drift", "applications with open drift", ("drift",)),
    ("decision", "decisions", ("approve", "reject")),
    ("revert", "reverts", ("revert",)),
    ("suspension", "suspensions", ("suspend", "resume")),
    ("refusal", "refusals", ("refused",)),
)
"""The words of the page for one and for several changes of some kinds; open drift is one entry an application."""
_VISIT_SECONDS = 90 * 86400


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show what needs attention, what happened since the last visit, and what runs now."""
    now = pages.engine.clock.now()
    backend = pages.engine
    views = backend.view.applications()
    rows = sorted(app_rows(views), key=lambda row: (row.rank, row.key))
    attention = problems(rows)
    visit = _visit(request.cookies.get(_VISIT, ""), now)
    boundary = visit or now - _FIRST
    recent = _since(backend, boundary)
    response = pages.show(
        request,
        "overview.html",
        total=len(rows),
        matching=sum(row.state == "Synced" for row in rows),
        sync_counts=counts(rows, "sync", SYNC_STATES),
        health_counts=counts(rows, "health", HEALTH_STATES),
        suspended=sum(row.is_suspended for row in rows),
        attention=attention[:_LISTED],
        sets=set_problems(backend.sets.sets()),
        more=len(attention) - _LISTED,
        busy=[row for row in rows if is_busy(row)][:_LISTED],
        # those that need attention are listed above, with their reason
        rows=[row for row in rows if not needs_attention(row)][:_LISTED],
        queue=backend.requests.queue_length(),
        behind=sum(row.is_behind for row in rows),
        seen=max((view.seen for view in views), default=None),
        # the syncs of Agents follow from those of commits, which are shown
        recent=[entry for entry in recent if entry.kind != "sync" or entry.is_of_commit][:_CHANGES],
        happened=_happened(recent),
        is_cut=len(recent) >= _RECENT,
        boundary=boundary,
        is_first_visit=visit is None,
    )
    response.set_cookie(
        _VISIT,
        # 0: the first visit continues with the next request
        f"{visit.timestamp() if visit is not None else 0:.0f}.{now.timestamp():.0f}",
        max_age=_VISIT_SECONDS,
        httponly=True,
        # lax: the cookie is also sent where a link of another site, such as a chat, opens the page
        samesite="lax",
    )
    return response


def _visit(cookie: str, now: datetime) -> datetime | None:
    """
    Return the end of the visit before this one, None during the first one.

    The cookie has that time and the time of the last request; after a pause the last request ended a visit.
    """
    previous, _, last = cookie.partition(".")
    # a client can send any cookie: what is not of this form is a first visit
    if not (previous.isdecimal() and last.isdecimal() and len(cookie) < 40):
        return None
    # keeps the number in the range of fromtimestamp
    latest = datetime.fromtimestamp(int(last) % (1 << 33), now.tzinfo)
    if now - latest > _PAUSE:
        return latest
    return datetime.fromtimestamp(int(previous) % (1 << 33), now.tzinfo) if int(previous) else None


def _since(backend: Backend, boundary: datetime) -> list[TimelineEntry]:
    return changes(backend, Filter(since=boundary), Position(), _RECENT).entries


def _happened(entries: list[TimelineEntry]) -> list[tuple[str, int]]:
    """Return how many entries of each kind there are, by the words of the page."""
    # several syncs of one commit are one commit, and those of Agents have none
    commits = {entry.commit for entry in entries if entry.is_of_commit}
    counts = [
        (singular, plural, sum(entry.kind in kinds for entry in entries)) for singular, plural, kinds in _HAPPENED
    ]
    every = [("commit", "commits", len(commits)), *counts]
    return [(singular if count == 1 else plural, count) for singular, plural, count in every if count]


_SHOWN = 8


@router.get("/wall", response_class=HTMLResponse)
def wall(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show large counts and what needs attention; grey while the controller does not follow Git or the cluster."""
    views = pages.engine.view.applications()
    rows = app_rows(views)
    groups = problems(rows)
    newest = max((view.seen for view in views), default=None)
    return pages.show(
        request,
        "wall.html",
        total=len(rows),
        good=sum(row.rank == 3 for row in rows),
        urgent=sum(row.rank == 0 for row in rows),
        # each Application is in one count, but that of suspended ones, which may have failed too
        attention=sum(needs_attention(row) and row.rank > 0 for row in rows),
        suspended=[part for row in rows for part in row.by_verdict if part.state == "Suspended"],
        problems=groups[:_SHOWN],
        more=len(groups) - _SHOWN,
        seen=newest,
        # not the time of the last reconcile: nothing is reconciled while the watches and Git report no change
        outages=pages.engine.problems(),
    )
