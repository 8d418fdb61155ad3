"""Approvals, and the audit: what was decided and written, by whom, as a page and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from gitsync.objects.record import AuditRecord, Outcome
from gitsync.record.serialization import dump
from gitsync.server.auth.access import current_user
from gitsync.server.pages.templates import Pages
from gitsync.server.pending import waiting
from gitsync.server.reviews import ReviewHandler
from gitsync.server.rows.applications import app_row

_PAGE = 100
_HELD = 30
ACTIONS = ("create", "update", "replace", "adopt", "prune", "hook", "approve", "reject", "post-sync", "trim")

Text = Annotated[str, Query(max_length=300)]


def router(pages: Pages, reviewing: ReviewHandler) -> APIRouter:
    """Return ``/approvals``, ``/audit`` and ``/audit.jsonl``."""
    routes = APIRouter()
    engine = pages.engine

    @routes.get("/approvals", response_class=HTMLResponse)
    def approvals(request: Request) -> HTMLResponse:
        views = waiting(engine.view.applications())
        now = engine.clock.now()
        shown = [(app_row(view, now), reviewing.pending(view, current_user(request))) for view in views[:_HELD]]
        shown.sort(key=lambda item: (item[1].rejected is not None, item[0].key))
        return pages.show(request, "approvals.html", held=shown, total=len(views))

    @routes.get("/audit", response_class=HTMLResponse)
    def audit(
        request: Request,
        app: Text = "",
        action: Text = "",
        outcome: Text = "",
        sync: Text = "",
        before: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
    ) -> HTMLResponse:
        wanted = {"app": app.strip(), "action": action, "outcome": outcome, "sync": sync}
        records = engine.records.audit_records(
            wanted["app"], action=action, outcome=outcome, sync=sync, limit=_PAGE, before=before
        )
        kept = {name: text for name, text in wanted.items() if text}
        older = urlencode({**kept, "before": records[-1].id}) if len(records) == _PAGE else ""
        return pages.show(
            request,
            "audit.html",
            records=records,
            wanted=wanted,
            actions=ACTIONS,
            outcomes=[item.value for item in Outcome],
            older=older,
        )

    @routes.get("/audit.jsonl")
    def export(app: Text = "") -> StreamingResponse:
        return StreamingResponse(
            _lines(engine.records.export(app.strip())),
            media_type="application/x-ndjson",
            headers={"Content-Disposition": 'attachment; filename="audit.jsonl"'},
        )

    return routes


def _lines(records: Iterator[AuditRecord]) -> Iterator[bytes]:
    for record in records:
        yield dump(asdict(record)).encode() + b"\n"
