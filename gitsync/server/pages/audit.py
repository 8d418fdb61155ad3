"""The audit: decisions and writes, and who made them, as a page and as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, StreamingResponse

from gitsync.objects.record import AuditRecord, Outcome
from gitsync.plan.drift_history import DRIFT_ACTION, EDIT_ACTION
from gitsync.record.tables import dump
from gitsync.server.backend import Backend
from gitsync.server.dependencies import BackendOf, PagesOf

router = APIRouter()

_PAGE = 60
WRITES = ("create", "update", "replace", "adopt", "prune", "release", "hook")
DECISIONS = (
    *("approve", "reject", "sync", "suspend", "resume", "pin", "unpin", "hold", "unhold", "revert", "revert-drift"),
    *("post-sync", "trim", "sync-objects", "restart", "delete-pod", "policy", "users", "sign-in", "sign-out"),
)

Text = Annotated[str, Query(max_length=300)]


@router.get("/audit", response_class=HTMLResponse)
def audit(
    request: Request,
    pages: PagesOf,
    app: Text = "",
    action: Text = "",
    outcome: Text = "",
    sync: Text = "",
    before: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
) -> HTMLResponse:
    """Show the audit records that match, newest first."""
    wanted = {"app": app.strip(), "action": action, "outcome": outcome, "sync": sync}
    records = pages.engine.records.audit_records(
        _full_key(pages.engine, wanted["app"]), action=action, outcome=outcome, sync=sync, limit=_PAGE, before=before
    )
    kept = {name: text for name, text in wanted.items() if text}
    return pages.show(
        request,
        "audit.html",
        records=records,
        wanted=wanted,
        actions=(*WRITES, DRIFT_ACTION, EDIT_ACTION, *DECISIONS),
        outcomes=[item.value for item in Outcome],
        older=urlencode({**kept, "before": records[-1].id}) if len(records) == _PAGE else "",
    )


@router.get("/audit.jsonl")
def export(backend: BackendOf, app: Text = "") -> StreamingResponse:
    """Send the whole chain, oldest first."""
    # streamed: the chain may be larger than the memory
    return StreamingResponse(
        _lines(backend.records.export(_full_key(backend, app.strip()))),
        media_type="application/x-ndjson",
        # a browser saves it and does not show it as a page of this origin
        headers={"Content-Disposition": 'attachment; filename="audit.jsonl"'},
    )


def _full_key(backend: Backend, text: str) -> str:
    """Return ``namespace/name`` of an application; a bare name counts where one application has it."""
    if not text or "/" in text:
        return text
    keys = [view.key for view in backend.view.applications() if view.key.rpartition("/")[2] == text]
    # an ambiguous name matches no record, rather than those of one of the Applications
    return keys[0] if len(keys) == 1 else text


def _lines(records: Iterator[AuditRecord]) -> Iterator[bytes]:
    for record in records:
        yield dump(asdict(record)).encode() + b"\n"
