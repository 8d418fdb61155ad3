"""The objects of all applications, with a filter and facets."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.pages.dependencies import PagesOf, SearchText, Start
from gitsync.server.pages.paging import list_url, page_of
from gitsync.server.rows.object_list import FACETS, NAMES, all_objects, facets, matching
from gitsync.server.rows.objects import resource_row
from gitsync.server.rows.query import parse_query

router = APIRouter()

_ROWS = 80


@router.get("/objects", response_class=HTMLResponse)
def objects(request: Request, pages: PagesOf, q: SearchText = "", start: Start = 0) -> HTMLResponse:
    """Show the objects that match, those with problems first."""
    query = parse_query(q, NAMES, pages.engine.clock.now())
    known = all_objects(pages.engine.view.applications())
    found = matching(known, query)
    shown, following = page_of(found, start, _ROWS)
    return pages.show(
        request,
        "objects.html",
        rows=[(item.application, resource_row(item.view)) for item in shown],
        matched=len(found),
        total=len(known),
        query=query,
        names=NAMES,
        facets=facets(known, query),
        facet_names=FACETS,
        start=start,
        following=following,
        page_size=_ROWS,
        url=list_url("/objects", str(query)),
        link=lambda text: list_url("/objects", text),
    )
