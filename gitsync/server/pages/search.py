"""Search over everything: applications, objects and commits, also for the command palette."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.changes import Position, changes
from gitsync.server.pages.dependencies import PagesOf, SearchText
from gitsync.server.rows import applications, object_list
from gitsync.server.rows.objects import resource_row
from gitsync.server.rows.query import Query, parse_query

router = APIRouter()

_APPLICATIONS, _OBJECTS, _CHANGES = 20, 40, 10


@router.get("/search", response_class=HTMLResponse)
def search(request: Request, pages: PagesOf, q: SearchText = "") -> HTMLResponse:
    """Show what matches, of each list the first."""
    now, views = pages.engine.clock.now(), pages.engine.view.applications()
    rows = applications.app_rows(views)
    wanted = parse_query(q, applications.NAMES, now)
    apps = applications.matching(rows, wanted) if not wanted.problem else []
    of_objects = parse_query(q, object_list.NAMES, now)
    objects = object_list.matching(object_list.all_objects(views), of_objects) if not of_objects.problem else []
    words = tuple(q.split())
    return pages.show(
        request,
        "search.html",
        q=q,
        apps=apps[:_APPLICATIONS],
        apps_total=len(apps),
        objects=[(item.application, resource_row(item.view)) for item in objects[:_OBJECTS]],
        objects_total=len(objects),
        entries=changes(pages.engine, Query(words=words), Position(), _CHANGES).entries if words else [],
    )
