"""The pages of one application: resources, differences, history, events; and what may be asked of it."""

from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.objects.change import DRIFT, Decision
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView
from gitsync.server.models import app_row, condition, field_row, quiet_counts, resource_row
from gitsync.server.pages import Pages
from gitsync.server.security import check_form
from gitsync.server.text import visible

_HISTORY = 20
PHASES = ("Observe", "Reason", "Classify", "Execute", "Record")


def router(pages: Pages) -> APIRouter:
    """Return the routes of applications."""
    routes = APIRouter(prefix="/apps/{namespace}/{name}")
    engine = pages.engine

    def found(namespace: str, name: str) -> ApplicationView:
        view = engine.view.application(f"{namespace}/{name}")
        if view is None:
            raise HTTPException(404, f"There is no application {visible(namespace)}/{visible(name)}.")
        return view

    Found = Annotated[ApplicationView, Depends(found)]  # noqa: N806 - names a type

    def show(request: Request, view: ApplicationView, tab: str, **context: Any) -> HTMLResponse:
        return pages.show(
            request,
            f"app_{tab}.html",
            tab=tab,
            view=view,
            state=view.status,
            row=app_row(view, engine.clock.now()),
            condition=condition,
            phases=phases(view),
            **context,
        )

    @routes.get("", response_class=HTMLResponse)
    def resources(request: Request, view: Found) -> HTMLResponse:
        rows = sorted(map(resource_row, view.resources), key=lambda row: (row.rank, row.kind, row.name))
        return show(request, view, "resources", rows=rows)

    @routes.get("/diff", response_class=HTMLResponse)
    def diff(request: Request, view: Found) -> HTMLResponse:
        objects = [
            (resource_row(item), [field_row(difference) for difference in item.change.differences], quiet_counts(item))
            for item in view.resources
        ]
        shown = [item for item in objects if item[0].sync != "Synced" or item[2]]
        return show(request, view, "diff", objects=sorted(shown, key=lambda item: item[0].rank))

    @routes.get("/plan", response_class=HTMLResponse)
    def plan(request: Request, view: Found) -> HTMLResponse:
        steps = view.plan.writes if view.plan is not None else ()
        rows = [(step, [field_row(item) for item in step.differences if item.kind in DRIFT]) for step in steps]
        return show(request, view, "plan", steps=rows, held=is_held(view))

    @routes.post("/approve", dependencies=[Depends(check_form)])
    def approve(
        view: Found, digest: Annotated[str, Form()], by: Annotated[str, Form()], reason: Annotated[str, Form()] = ""
    ) -> RedirectResponse:
        if view.plan is None or view.application is None or not is_held(view):
            raise HTTPException(409, "Nothing waits for approval here any more.")
        if view.plan.digest != digest:
            raise HTTPException(409, "The plan changed since the page was shown. Look at the new one first.")
        if not by.strip():
            raise HTTPException(422, "An approval needs a name.")
        until = engine.clock.now() + timedelta(seconds=view.application.risk.approval_ttl)
        engine.records.approve(view.key, digest, approver=visible(by.strip()), reason=visible(reason), until=until)
        engine.requests.request_sync(view.key, by.strip())
        return RedirectResponse(_url(view), 303)

    @routes.get("/history", response_class=HTMLResponse)
    def history(request: Request, view: Found, before: int = 0) -> HTMLResponse:
        records = engine.records.history(view.key, limit=_HISTORY, before=before)
        return show(request, view, "history", records=records, older=records[-1].id if len(records) == _HISTORY else 0)

    @routes.get("/events", response_class=HTMLResponse)
    def events(request: Request, view: Found) -> HTMLResponse:
        kept = [event for event in engine.view.events(limit=2000) if event.application == view.key]
        return show(request, view, "events", events=kept[:-201:-1])

    @routes.get("/object", response_class=HTMLResponse)
    def manifest(request: Request, view: Found, ref: str) -> HTMLResponse:
        from gitsync.render.yaml_writer import write

        try:
            wanted = ObjectRef.from_path(ref)
        except ValueError:
            raise HTTPException(404, "That is no object.") from None
        live = engine.view.live(view.key, wanted)
        if live is None:
            raise HTTPException(404, f"{visible(wanted)} is not in the cluster, or not part of this application.")
        shown = {**live, "metadata": {k: v for k, v in live["metadata"].items() if k != "managedFields"}}
        parts = engine.view.parts(view.key, wanted)
        return show(request, view, "object", ref=wanted, text=visible(write(shown)), parts_of=parts)

    @routes.post("/sync", dependencies=[Depends(check_form)])
    def sync(view: Found) -> RedirectResponse:
        engine.requests.request_sync(view.key, "dashboard")
        return RedirectResponse(_url(view), 303)

    @routes.get("/revert", response_class=HTMLResponse)
    def ask_revert(request: Request, view: Found) -> HTMLResponse:
        if view.application is None:
            raise HTTPException(409, "The application cannot be read, so nothing can be reverted.")
        return show(request, view, "revert", commits=engine.undo.commits(view.application))

    @routes.post("/revert", dependencies=[Depends(check_form)])
    def revert(
        view: Found,
        commit: Annotated[str, Form()],
        by: Annotated[str, Form()] = "",
        branch: Annotated[str, Form()] = "",
    ) -> RedirectResponse:
        if view.application is None:
            raise HTTPException(409, "The application cannot be read, so nothing can be reverted.")
        commits = engine.undo.commits(view.application)
        if [item.id for item in commits] != [commit]:
            raise HTTPException(409, "The branch moved since the page was shown. Look again before reverting.")
        engine.undo.push(view.application, commits, author=visible(by) or "dashboard", branch=branch.strip())
        if not branch.strip():
            engine.requests.request_sync(view.key, "dashboard")
        return RedirectResponse(_url(view), 303)

    return routes


def is_held(view: ApplicationView) -> bool:
    """Tell whether the plan waits for a person."""
    return view.verdict is not None and view.verdict.decision is Decision.HELD


def _url(view: ApplicationView) -> str:
    namespace, _, name = view.key.partition("/")
    return f"/apps/{quote(namespace)}/{quote(name)}"


def phases(view: ApplicationView) -> list[tuple[str, str, str]]:
    """Return the five phases with ``done``, ``now``, ``failed`` or ``waiting`` each, and what it says."""
    status = view.status
    phase = status.get("phase", "Pending")
    source, rendered = condition(status, "SourceReady"), condition(status, "Rendered")
    failed = next((item for item in (source, rendered) if item.get("status") == "False"), None)
    if failed is not None:
        return _strip(0, "failed", str(failed.get("reason", "")))
    if phase == "AwaitingApproval":
        return _strip(3, "waiting", "waits for a person")
    if phase in ("Executing", "Deleting"):
        return _strip(3, "now", str(condition(status, "Reconciling").get("reason", "")))
    if phase == "Failed":
        return _strip(3, "failed", str(condition(status, "Ready").get("reason", "")))
    if phase in ("Synced", "Suspended", "Drifted"):
        return _strip(len(PHASES), "done", "")
    return _strip(1, "now", "")


def _strip(position: int, state: str, word: str) -> list[tuple[str, str, str]]:
    return [
        (
            name,
            "done" if index < position else state if index == position else "later",
            word if index == position else "",
        )
        for index, name in enumerate(PHASES)
    ]
