"""The frame around the pages of one application: its verdict, facts and tabs."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from gitsync.errors import RecordUnavailable
from gitsync.objects.conditions import find_condition
from gitsync.objects.phase import Phase
from gitsync.objects.record import AuditRecord
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.queries.applications import app_row
from gitsync.server.queries.object_details import LOGGED
from gitsync.server.queries.verdict import phases
from gitsync.server.queries.waiting import stuck_deletions
from gitsync.server.templates import Pages


def show_application(
    pages: Pages, request: Request, view: ApplicationView, tab: str, status: int = 200, **context: Any
) -> HTMLResponse:
    """Return a page of an application; its template is ``app_TAB.html``."""
    return pages.show(
        request,
        f"app_{tab}.html",
        status,
        tab=tab,
        view=view,
        state=view.status,
        row=app_row(view),
        condition=find_condition,
        phases=phases(view),
        logged=LOGGED,
        deletions=stuck_deletions(view, pages.engine.view.owned_by),
        suspension=_suspension(pages.engine, view),
        **context,
    )


def _suspension(backend: Backend, view: ApplicationView) -> AuditRecord | None:
    """Return the audit record of who suspended an application, None where it runs or the audit does not know."""
    if Phase.of(view.status) is not Phase.SUSPENDED:
        return None
    try:
        links = backend.records.audit_records(view.key, action="suspend", limit=1)
    # without the records the page shows everything else
    except RecordUnavailable:
        return None
    return links[0] if links else None
