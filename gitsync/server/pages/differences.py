"""The differences between Git and the cluster of all objects of an application."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.dependencies import PagesOf, Start, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.paging import page_of
from gitsync.server.queries.differences import object_differences, unpaired
from gitsync.server.queries.objects import (
    by_severity,
    foreign_counts,
    foreign_fields,
)

router = APIRouter(prefix="/apps/{namespace}/{name}")

_OBJECTS = 25


@router.get("/diff", response_class=HTMLResponse)
def diff(request: Request, pages: PagesOf, view: ViewOf, mode: str = "split", start: Start = 0) -> HTMLResponse:
    """Show all objects that differ, then those that have only ignored differences or fields set by others."""
    items = unpaired(view)
    differing = sorted((item for item in items if item.sync != "Synced"), key=by_severity)
    matching = [item for item in items if item.sync == "Synced"]
    noted = sorted((item for item in matching if item.change.differences or foreign_fields(item)), key=by_severity)
    shown, following = page_of([*differing, *noted], start, _OBJECTS)
    return show_application(
        pages,
        request,
        view,
        "diff",
        objects=object_differences(pages.engine, view, shown),
        differing=len(differing),
        noted=len(noted),
        matching=len(matching),
        foreign=foreign_counts(matching),
        mode="unified" if mode == "unified" else "split",
        start=start,
        following=following,
    )
