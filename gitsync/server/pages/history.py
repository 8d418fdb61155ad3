"""The syncs of one application, and what one of them did."""

from __future__ import annotations

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from gitsync.objects.record import AuditRecord, SyncRecord
from gitsync.server.dependencies import PagesOf, Start, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.paging import page_of
from gitsync.server.queries.applications import app_row, newest_syncs
from gitsync.server.queries.contents import recorded_content
from gitsync.server.queries.fields import FIELDS, recorded_field
from gitsync.server.templates import Pages

router = APIRouter(prefix="/apps/{namespace}/{name}/history")

_STEPS = 50
_HISTORY = 20


@router.get("", response_class=HTMLResponse)
def history(request: Request, pages: PagesOf, view: ViewOf, before: Start = 0) -> HTMLResponse:
    """Show the syncs of an application, newest first."""
    records = pages.engine.records.history(view.key, limit=_HISTORY, before=before)
    older = records[-1].id if len(records) == _HISTORY else 0
    newest = newest_syncs(records, [app_row(view)]) if not before else {}
    return show_application(pages, request, view, "history", records=records, newest=newest, older=older)


@router.get("/{id}", response_class=HTMLResponse)
def sync(request: Request, pages: PagesOf, view: ViewOf, id: int, start: Start = 0) -> HTMLResponse:
    """Show the steps of one sync, each with what it changed."""
    record = pages.engine.records.record(id) if 0 < id < 1 << 62 else None
    if record is None or record.application != view.key:
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
    return show_application(
        pages,
        request,
        view,
        "sync",
        record=record,
        reviews=_reviews(pages, record),
        steps=steps,
        start=start,
        following=following,
    )


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
