"""The plans that wait for a user or a sync window."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from gitsync.server.pages.dependencies import PagesOf, PendingPlansOf, UserOf
from gitsync.server.pending import waiting
from gitsync.server.rows.applications import app_row

router = APIRouter()

_LISTED = 30


@router.get("/approvals", response_class=HTMLResponse)
def approvals(request: Request, pages: PagesOf, plans: PendingPlansOf, user: UserOf) -> HTMLResponse:
    """Show the plans that wait; each is reviewed on its own page, where its changes are."""
    views = waiting(pages.engine.view.applications())
    shown = [(app_row(view), plans.of(view, user)) for view in views[:_LISTED]]
    shown.sort(key=lambda item: (item[1].rejected is not None, item[0].key))
    return pages.show(request, "approvals.html", pending=shown, total=len(views))
