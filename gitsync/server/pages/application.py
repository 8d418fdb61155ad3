"""The pages of one application: resources, plan, differences, history, events, single objects."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from fastapi.responses import HTMLResponse

from gitsync.objects.change import ABSENT, DRIFT, FieldDifference
from gitsync.objects.conditions import find_condition
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.actions import readable
from gitsync.server.auth.access import current_user
from gitsync.server.formatting import visible
from gitsync.server.pages.templates import Pages
from gitsync.server.pending import is_held
from gitsync.server.reviews import ReviewHandler
from gitsync.server.rows.applications import app_row
from gitsync.server.rows.objects import (
    Place,
    field_row,
    ignored_counts,
    places,
    recorded_field,
    resource_row,
    trouble,
    worst_first,
)
from gitsync.server.rows.phases import phases
from gitsync.server.rows.tree import tree

_ROWS, _OBJECTS, _STEPS, _HISTORY, _EVENTS = 100, 25, 50, 20, 200
FIELDS = 20
"""Differences of one object that are listed; the rest is counted."""

T = TypeVar("T")
Start = Annotated[int, Query(ge=0, le=10_000_000)]

ONLY: dict[str, Callable[[ResourceView], bool]] = {
    "": lambda item: True,
    "drift": lambda item: item.sync != "Synced",
    "trouble": lambda item: trouble(item) > 0,
}
"""What the list of resources can be narrowed to."""


def application_or_404(pages: Pages) -> Callable[[str, str], ApplicationView]:
    """Return what finds the application of a path, or answers 404."""

    def found(namespace: str, name: str) -> ApplicationView:
        view = pages.engine.view.application(f"{namespace}/{name}")
        if view is None:
            raise HTTPException(404, f"There is no application {visible(namespace)}/{visible(name)}.")
        return view

    return found


def router(pages: Pages, reviewing: ReviewHandler) -> APIRouter:
    """Return the pages of applications."""
    routes = APIRouter(prefix="/apps/{namespace}/{name}")
    engine = pages.engine
    Found = Annotated[ApplicationView, Depends(application_or_404(pages))]  # noqa: N806 - names a type

    def objects(view: ApplicationView, items: Sequence[ResourceView]) -> list[dict[str, Any]]:
        """Return what the differences of objects are shown from, with the files and lines that they come from."""
        wanted = {
            item.ref: ["", *(found.path for found in _drift(item)[:FIELDS] if found.desired is not ABSENT)]
            for item in items
            if item.sync != "Synced" and item.change.desired is not None
        }
        app, commit = view.application, view.plan.revision if view.plan is not None else ""
        traces = engine.origins.trace(app, commit, wanted) if app is not None and wanted and commit else {}

        def places_of(ref: ObjectRef, field: str) -> tuple[Place, ...]:
            return places(traces.get(ref, {}).get(field, ()), app.source, commit) if app is not None else ()

        return [
            {
                "row": resource_row(item),
                "fields": [
                    field_row(found, places_of(item.ref, found.path), item.change.live)
                    for found in _drift(item)[:FIELDS]
                ],
                "more": max(len(_drift(item)) - FIELDS, 0),
                "quiet": ignored_counts(item),
                "origin": next(iter(places_of(item.ref, "")), None),
            }
            for item in items
        ]

    def show(request: Request, view: ApplicationView, tab: str, **context: Any) -> HTMLResponse:
        return pages.show(
            request,
            f"app_{tab}.html",
            tab=tab,
            view=view,
            state=view.status,
            row=app_row(view, engine.clock.now()),
            condition=find_condition,
            phases=phases(view),
            **context,
        )

    @routes.get("", response_class=HTMLResponse)
    def resources(
        request: Request, view: Found, only: str = "", start: Start = 0, mode: Annotated[str, Query(alias="view")] = ""
    ) -> HTMLResponse:
        if mode == "tree":
            groups, left_out = tree(view.resources, engine.view.owned_by)
            return show(request, view, "tree", groups=groups, left_out=left_out)
        wanted = ONLY.get(only, ONLY[""])
        found = sorted(filter(wanted, view.resources), key=worst_first)
        shown, following = _page(found, start, _ROWS)
        return show(
            request,
            view,
            "resources",
            rows=[resource_row(item) for item in shown],
            only=only if only in ONLY else "",
            counts={name: sum(map(keep, view.resources)) for name, keep in ONLY.items()},
            matched=len(found),
            start=start,
            following=following,
        )

    @routes.get("/diff", response_class=HTMLResponse)
    def diff(request: Request, view: Found, mode: str = "split", start: Start = 0) -> HTMLResponse:
        found = sorted((item for item in view.resources if item.sync != "Synced"), key=worst_first)
        quiet = sorted(
            (item for item in view.resources if item.sync == "Synced" and item.change.differences), key=worst_first
        )
        shown, following = _page([*found, *quiet], start, _OBJECTS)
        return show(
            request,
            view,
            "diff",
            objects=objects(view, shown),
            differing=len(found),
            quiet=len(quiet),
            same=len(view.resources) - len(found) - len(quiet),
            mode="unified" if mode == "unified" else "split",
            start=start,
            following=following,
        )

    @routes.get("/plan", response_class=HTMLResponse)
    def plan(request: Request, view: Found, start: Start = 0) -> HTMLResponse:
        steps = view.plan.writes if view.plan is not None else ()
        riskiest = sorted(steps, key=lambda step: -step.risk.level)
        shown, following = _page(riskiest, start, _STEPS)
        rows = [(step, [field_row(item) for item in step.differences if item.kind in DRIFT]) for step in shown]
        held = reviewing.pending(view, current_user(request)) if is_held(view) else None
        return show(request, view, "plan", steps=rows, total=len(steps), held=held, start=start, following=following)

    @routes.get("/history", response_class=HTMLResponse)
    def history(request: Request, view: Found, before: Start = 0) -> HTMLResponse:
        records = engine.records.history(view.key, limit=_HISTORY, before=before)
        return show(request, view, "history", records=records, older=records[-1].id if len(records) == _HISTORY else 0)

    @routes.get("/history/{id}", response_class=HTMLResponse)
    def sync(request: Request, view: Found, id: int, start: Start = 0) -> HTMLResponse:
        record = engine.records.record(id) if 0 < id < 1 << 62 else None
        if record is None or record.application != view.key:
            raise HTTPException(404, "There is no such sync, or it is older than the history that is kept.")
        shown, following = _page(record.steps, start, _STEPS)
        steps = [(step, [recorded_field(item) for item in step.differences[:FIELDS]]) for step in shown]
        return show(request, view, "sync", record=record, steps=steps, start=start, following=following)

    @routes.get("/events", response_class=HTMLResponse)
    def events(request: Request, view: Found) -> HTMLResponse:
        kept = [event for event in engine.view.events(limit=2000) if event.application == view.key]
        return show(request, view, "events", events=kept[: -_EVENTS - 1 : -1])

    @routes.get("/revert", response_class=HTMLResponse)
    def ask_revert(request: Request, view: Found) -> HTMLResponse:
        return show(request, view, "revert", commits=engine.undo.commits(readable(view)))

    @routes.get("/object", response_class=HTMLResponse)
    def manifest(request: Request, view: Found, ref: str) -> HTMLResponse:
        from gitsync.render.yaml.writer import write

        try:
            wanted = ObjectRef.from_path(ref)
        except ValueError:
            raise HTTPException(404, "That is no object.") from None
        live = engine.view.live(view.key, wanted)
        if live is None:
            raise HTTPException(404, f"{visible(wanted)} is not in the cluster, or not part of this application.")
        shown = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        item = next((item for item in view.resources if item.ref == wanted), None)
        return show(
            request,
            view,
            "object",
            ref=wanted,
            item=objects(view, [item])[0] if item is not None else None,
            text=visible(write(shown)),
            parts_of=engine.view.dependents(view.key, wanted)[:100],
        )

    return routes


def _page(items: Sequence[T], start: int, size: int) -> tuple[Sequence[T], int]:
    """Return one page of items and where the next one starts, 0 at the end."""
    following = start + size
    return items[start:following], following if following < len(items) else 0


def _drift(item: ResourceView) -> list[FieldDifference]:
    return [difference for difference in item.change.differences if difference.kind in DRIFT]
