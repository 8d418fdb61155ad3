"""The overview and the list of applications."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from gitsync.ports import ApplicationView
from gitsync.server.pages.dependencies import PagesOf, Start
from gitsync.server.pages.paging import page_of
from gitsync.server.pages.templates import Pages
from gitsync.server.rows.applications import (
    HEALTH_STATES,
    PAGE,
    SYNC_STATES,
    AppRow,
    Filter,
    app_row,
    counts,
    is_busy,
    needs_attention,
)

router = APIRouter()

_LISTED, _OUTCOMES = 12, 10


def _filter(
    q: str = "",
    sync: str = "",
    health: str = "",
    ns: str = "",
    sort: str = "worst",
    start: Start = 0,
    suspended: str = "",
) -> Filter:
    return Filter(q[:200], sync, health, ns, "name" if sort == "name" else "worst", start, "yes" if suspended else "")


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, pages: PagesOf) -> HTMLResponse:
    """Show what needs attention, what runs now and the last syncs."""
    views = pages.engine.view.applications()
    found = sorted(_rows(pages, views), key=lambda row: (row.rank, row.key))
    attention = [row for row in found if needs_attention(row)]
    return pages.show(
        request,
        "overview.html",
        total=len(found),
        sync_counts=counts(found, "sync", SYNC_STATES),
        health_counts=counts(found, "health", HEALTH_STATES),
        suspended=sum(row.is_suspended for row in found),
        attention=attention[:_LISTED],
        more=len(attention) - _LISTED,
        busy=[row for row in found if is_busy(row)][:_LISTED],
        rows=found[:_LISTED],
        outcomes=pages.engine.records.history(limit=_OUTCOMES),
        queue=pages.engine.requests.queue_length(),
        behind=sum(row.is_behind for row in found),
        seen=max((view.seen for view in views), default=None),
    )


@router.get("/apps", response_class=HTMLResponse)
def applications(request: Request, pages: PagesOf, wanted: Annotated[Filter, Depends(_filter)]) -> HTMLResponse:
    """Show the applications that match, with facets that combine."""
    found = _rows(pages, pages.engine.view.applications())
    ordered = wanted.ordered(found)
    shown, following = page_of(ordered, wanted.start, PAGE)
    without_sync, without_health = (replace(wanted, sync="").ordered(found), replace(wanted, health="").ordered(found))
    return pages.show(
        request,
        "apps.html",
        rows=shown,
        matched=len(ordered),
        total=len(found),
        wanted=wanted,
        sync_counts=counts(without_sync, "sync", SYNC_STATES),
        health_counts=counts(without_health, "health", HEALTH_STATES),
        suspended=sum(row.is_suspended for row in replace(wanted, suspended="").ordered(found)),
        following=following,
        page_size=PAGE,
        link=lambda **changes: _link(wanted, changes),
    )


def _rows(pages: Pages, views: Iterable[ApplicationView]) -> list[AppRow]:
    now = pages.engine.clock.now()
    return [app_row(view, now) for view in views]


def _link(wanted: Filter, changes: dict[str, Any]) -> str:
    """Return the URL of the list with some members of the filter changed; it begins at the first page."""
    members = {"q": wanted.q, "sync": wanted.sync, "health": wanted.health, "ns": wanted.ns, "sort": wanted.sort}
    members |= {"suspended": wanted.suspended, **changes}
    if members["sort"] == "worst":
        del members["sort"]
    query = urlencode({key: text for key, text in members.items() if text})
    return f"/apps?{query}" if query else "/apps"
