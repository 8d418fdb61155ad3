"""The syncs of one application, agent or system, and what one of them did."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.objects.record import AuditRecord, SyncRecord
from gitsync.server.dependencies import AgentKey, PagesOf, Start, SyncId, SystemKey, ViewOf
from gitsync.server.formatting import visible
from gitsync.server.pages.layout import show_application
from gitsync.server.queries.agents import agents_of, find_agent
from gitsync.server.queries.applications import app_row, newest_syncs
from gitsync.server.queries.differences import recorded_content
from gitsync.server.queries.fields import FIELDS, recorded_field
from gitsync.server.queries.filters import page_of
from gitsync.server.queries.object_details import agent_children, log_pages
from gitsync.server.queries.systems import find_system
from gitsync.server.templates import Pages

router = APIRouter()

_STEPS = 50
_HISTORY = 20


@router.get("/apps/{namespace}/{name}/history", response_class=HTMLResponse)
def history(request: Request, pages: PagesOf, view: ViewOf, before: SyncId = 0) -> HTMLResponse:
    """Show the syncs of an application, newest first."""
    records = pages.engine.records.history(view.key, limit=_HISTORY, before=before)
    older = records[-1].id if len(records) == _HISTORY else 0
    # the newest sync of an Application is on the first page only
    newest = newest_syncs(records, [app_row(view)]) if not before else {}
    yesterday = (pages.engine.clock.now() - timedelta(days=1)).strftime("%Y-%m-%d %H:%M")
    return show_application(
        pages, request, view, "history", records=records, newest=newest, older=older, yesterday=yesterday
    )


@router.get("/apps/{namespace}/{name}/history/{id}", response_class=HTMLResponse)
def sync(request: Request, pages: PagesOf, view: ViewOf, id: int, start: Start = 0) -> HTMLResponse:
    """Show the steps of one sync, each with what it changed."""
    return show_application(pages, request, view, "sync", **_context(pages, view.key, id, start))


@router.get("/agents/{namespace}/{name}/history", response_class=HTMLResponse)
def agent_history(request: Request, pages: PagesOf, owner: AgentKey, before: SyncId = 0) -> HTMLResponse:
    """Show the syncs of an Agent, newest first."""
    agent = find_agent(agents_of(pages.engine), owner.namespace, owner.name)
    logs = log_pages(agent, agent_children(pages.engine, agent)) if agent is not None else []
    return _show_history(pages, request, str(owner), before, is_known=agent is not None, logs=logs)


@router.get("/agents/{namespace}/{name}/history/{id}", response_class=HTMLResponse)
def agent_sync(request: Request, pages: PagesOf, owner: AgentKey, id: int, start: Start = 0) -> HTMLResponse:
    """Show the steps of one sync of an Agent."""
    return pages.show(request, "owner_sync.html", **_context(pages, str(owner), id, start))


@router.get("/agents/systems/{namespace}/{name}/history", response_class=HTMLResponse)
def system_history(request: Request, pages: PagesOf, owner: SystemKey, before: SyncId = 0) -> HTMLResponse:
    """Show the syncs of a system, newest first."""
    view = pages.engine.view
    is_known = find_system(view.applications(), view.live, owner.namespace, owner.name) is not None
    return _show_history(pages, request, str(owner), before, is_known=is_known)


@router.get("/agents/systems/{namespace}/{name}/history/{id}", response_class=HTMLResponse)
def system_sync(request: Request, pages: PagesOf, owner: SystemKey, id: int, start: Start = 0) -> HTMLResponse:
    """Show the steps of one sync of a system."""
    return pages.show(request, "owner_sync.html", **_context(pages, str(owner), id, start))


def _show_history(
    pages: Pages, request: Request, key: str, before: int, *, is_known: bool, logs: Sequence[tuple[str, str]] = ()
) -> HTMLResponse:
    records = pages.engine.records.history(key, limit=_HISTORY, before=before)
    # the history of a deleted owner stays; whether one is hidden or never existed must not be visible
    if not records and not is_known:
        raise HTTPException(404, f"No syncs of {visible(key)} are kept.")
    older = records[-1].id if len(records) == _HISTORY else 0
    return pages.show(request, "owner_history.html", key=key, records=records, older=older, logs=logs)


def _context(pages: Pages, key: str, id: int, start: int) -> dict[str, Any]:
    """Return what the page of a sync shows; answer 404 for one that is not kept, or of another owner."""
    # a larger id is not an integer of SQLite
    record = pages.engine.records.record(id) if 0 < id < 1 << 62 else None
    # ids count over all Applications: one that is hidden must not be readable through another
    if record is None or record.application != key:
        raise HTTPException(404, "There is no such sync, or it is older than the history that is kept.")
    shown, following = page_of(record.steps, start, _STEPS)
    steps = [
        (
            step,
            [recorded_field(item, len(shown)) for item in step.differences[:FIELDS] if item.get("path")],
            recorded_content(step, len(shown)),
        )
        for step in shown
    ]
    return {
        "record": record,
        "reviews": _reviews(pages, record),
        "steps": steps,
        "start": start,
        "following": following,
    }


def _reviews(pages: Pages, record: SyncRecord) -> list[AuditRecord]:
    """Return the audit records of the reviews of what a sync applied, rejections among them, oldest first."""
    if not record.approver:
        return []
    reviews = [
        link
        for action in ("approve", "reject")
        for link in pages.engine.records.audit_records(record.application, action=action)
        if link.digest == record.digest
    ]
    return sorted(reviews, key=lambda link: link.id)
