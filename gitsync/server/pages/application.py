"""The objects of one application, how they differ from Git, and its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.objects.phase import SyncStatus
from gitsync.ports import ResourceView
from gitsync.server.dependencies import PagesOf, Start, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.differences import object_differences, unpaired
from gitsync.server.queries.filters import page_of
from gitsync.server.queries.graph import HEIGHT, LENSES, WIDTH, graph
from gitsync.server.queries.objects import (
    by_severity,
    foreign_counts,
    foreign_fields,
    resource_row,
    severity,
)
from gitsync.server.queries.tree import tree

router = APIRouter(prefix="/apps/{namespace}/{name}")

_ROWS = 100
_DIFFERING = 25
"""Objects of one page, in the list and among the differences."""
_EVENTS = 200
_KEPT_EVENTS = 2000

ONLY: dict[str, Callable[[ResourceView], bool]] = {
    "": lambda item: True,
    "drift": lambda item: item.sync != SyncStatus.SYNCED,
    "trouble": lambda item: severity(item) > 0,
}
"""What ``?only=`` narrows the list of objects to."""


@router.get("", response_class=HTMLResponse)
def resources(
    request: Request,
    pages: PagesOf,
    view: ViewOf,
    only: str = "",
    start: Start = 0,
    mode: Annotated[str, Query(alias="view")] = "",
    lens: str = "health",
) -> HTMLResponse:
    """Show the objects, those with problems first, as a list, a tree or a graph."""
    if mode == "graph":
        made = graph(view.resources, pages.engine.view.owned_by, lens)
        chosen = lens if lens in LENSES else "health"
        size = {"width": WIDTH, "height": HEIGHT}
        return show_application(pages, request, view, "graph", graph=made, lens=chosen, lenses=LENSES, **size)
    if mode == "tree":
        groups, left_out = tree(view.resources, pages.engine.view.owned_by)
        return show_application(pages, request, view, "tree", groups=groups, left_out=left_out)
    # an unknown filter shows all, so that an old link still opens
    chosen_objects = sorted(filter(ONLY.get(only, ONLY[""]), view.resources), key=by_severity)
    shown, following = page_of(chosen_objects, start, _ROWS)
    return show_application(
        pages,
        request,
        view,
        "resources",
        rows=[resource_row(item) for item in shown],
        only=only if only in ONLY else "",
        counts={name: sum(map(keep, view.resources)) for name, keep in ONLY.items()},
        matched=len(chosen_objects),
        start=start,
        following=following,
    )


@router.get("/events", response_class=HTMLResponse)
def events(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show what changed since the controller started, newest first."""
    kept = [event for event in pages.engine.view.events(limit=_KEPT_EVENTS) if event.application == view.key]
    # the last ones, the newest first
    return show_application(pages, request, view, "events", events=kept[: -_EVENTS - 1 : -1])


@router.get("/policy", response_class=HTMLResponse)
def policy(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show what the operator's policies allow and require, and what decided each setting."""
    policies = pages.engine.policies
    settings = policies.explain(view.application) if view.application is not None else ()
    return show_application(pages, request, view, "policy", settings=settings, problem=policies.problem)


@router.get("/diff", response_class=HTMLResponse)
def diff(request: Request, pages: PagesOf, view: ViewOf, mode: str = "split", start: Start = 0) -> HTMLResponse:
    """Show all objects that differ, then those that have only ignored differences or fields set by others."""
    items = unpaired(view)
    differing = sorted((item for item in items if item.sync != SyncStatus.SYNCED), key=by_severity)
    matching = [item for item in items if item.sync == SyncStatus.SYNCED]
    noted = sorted((item for item in matching if item.change.differences or foreign_fields(item)), key=by_severity)
    shown, following = page_of([*differing, *noted], start, _DIFFERING)
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
