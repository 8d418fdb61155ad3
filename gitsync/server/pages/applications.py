"""The list of applications."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.server.pages.dependencies import PagesOf, SearchText, Start
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.applications import HEALTH_STATES, NAMES, PAGE, SYNC_STATES, app_rows, counts, matching
from gitsync.server.rows.query import parse_query

router = APIRouter()

Old = Annotated[str, Query(max_length=100)]


@router.get("/apps", response_class=HTMLResponse)
def applications(
    request: Request,
    pages: PagesOf,
    q: SearchText = "",
    sort: str = "worst",
    start: Start = 0,
    sync: Old = "",
    health: Old = "",
    ns: Old = "",
) -> HTMLResponse:
    """Show the applications that match, with facets that combine; members of a filter may be parameters too."""
    named = " ".join(f"{name}:{text}" for name, text in (("sync", sync), ("health", health), ("ns", ns)) if text)
    now = pages.engine.clock.now()
    query = parse_query(f"{q} {named}", NAMES, now)
    rows = app_rows(pages.engine.view.applications())
    ordered = matching(rows, query, sort)
    shown, following = page_of(ordered, start, PAGE)
    is_by_name = sort == "name"
    kept = {"sort": "name"} if is_by_name else {}
    return pages.show(
        request,
        "apps.html",
        rows=shown,
        matched=len(ordered),
        total=len(rows),
        query=query,
        names=NAMES,
        sort="name" if is_by_name else "worst",
        start=start,
        sync_counts=counts(matching(rows, query.without("sync")), "sync", SYNC_STATES),
        health_counts=counts(matching(rows, query.without("health")), "health", HEALTH_STATES),
        suspended=sum(row.is_suspended for row in matching(rows, query.without("is"))),
        following=following,
        page_size=PAGE,
        url=list_url("/apps", str(query), **kept),
        by=lambda order: list_url("/apps", str(query), **({"sort": "name"} if order == "name" else {})),
        link=lambda name, value: list_url("/apps", query.toggled(name, value), **kept),
    )
