"""The overview and the list of applications."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse

from gitsync.ports import ApplicationView
from gitsync.server.pages.templates import Pages
from gitsync.server.pending import awaiting_decision, needs_approval
from gitsync.server.rows.applications import (
    HEALTH_STATES,
    SYNC_STATES,
    AppRow,
    Filter,
    app_row,
    counts,
    is_busy,
    needs_attention,
)

_NEEDY = 12
_OUTCOMES = 10


def router(pages: Pages) -> APIRouter:
    """Return the routes of the lists."""
    routes = APIRouter()

    def rows(views: Iterable[ApplicationView]) -> list[AppRow]:
        now = pages.engine.clock.now()
        return [app_row(view, now) for view in views]

    @routes.get("/", response_class=HTMLResponse)
    def overview(request: Request) -> HTMLResponse:
        views = pages.engine.view.applications()
        found = sorted(rows(views), key=lambda row: (row.rank, row.key))
        rejected = {view.key for view in views if needs_approval(view)} - {
            view.key for view in awaiting_decision(views, pages.engine)
        }
        attention = [row for row in found if needs_attention(row) and row.key not in rejected]
        return pages.show(
            request,
            "overview.html",
            total=len(found),
            sync_counts=counts(found, "sync", SYNC_STATES),
            health_counts=counts(found, "health", HEALTH_STATES),
            needy=attention[:_NEEDY],
            more=len(attention) - _NEEDY,
            busy=[row for row in found if is_busy(row)][:_NEEDY],
            rows=found[:_NEEDY],
            outcomes=pages.engine.records.history(limit=_OUTCOMES),
            queue=pages.engine.requests.queue_length(),
            behind=sum(row.is_behind for row in found),
            seen=max((view.seen for view in views), default=None),
        )

    @routes.get("/apps", response_class=HTMLResponse)
    def applications(request: Request, wanted: Annotated[Filter, Depends(_filter)]) -> HTMLResponse:
        found = rows(pages.engine.view.applications())
        ordered = wanted.ordered(found)
        shown, following = wanted.page(ordered)
        return pages.show(
            request,
            "apps.html",
            rows=shown,
            matched=len(ordered),
            total=len(found),
            wanted=wanted,
            sync_counts=counts(found, "sync", SYNC_STATES),
            health_counts=counts(found, "health", HEALTH_STATES),
            following=following,
            link=lambda **changes: _link(wanted, changes),
        )

    return routes


def _filter(
    q: str = "", sync: str = "", health: str = "", ns: str = "", sort: str = "worst", after: str = ""
) -> Filter:
    return Filter(q[:200], sync, health, ns, "name" if sort == "name" else "worst", after)


def _link(wanted: Filter, changes: dict[str, Any]) -> str:
    """Return the URL of the list with some members of the filter changed; a change begins at the first page."""
    members = {"q": wanted.q, "sync": wanted.sync, "health": wanted.health, "ns": wanted.ns, "sort": wanted.sort}
    members |= changes
    if members["sort"] == "worst":
        del members["sort"]
    query = urlencode({key: text for key, text in members.items() if text})
    return f"/apps?{query}" if query else "/apps"
