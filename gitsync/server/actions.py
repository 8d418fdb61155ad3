"""Requests of users: sync, suspend and resume an application, revert a commit. Each is audited before it is made."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.errors import InvalidInput
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.auth.security import check_form
from gitsync.server.backend import Backend
from gitsync.server.formatting import app_url
from gitsync.server.notices import leave_notice
from gitsync.server.pages.dependencies import BackendOf, OperatorOf, PagesOf, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.reviews import line, reviewer

router = APIRouter(prefix="/apps/{namespace}/{name}")
checked = [Depends(check_form)]

Text = Annotated[str, Form(max_length=1000)]


@router.post("/sync", dependencies=checked)
def sync(backend: BackendOf, view: ViewOf, user: OperatorOf) -> RedirectResponse:
    """Request a sync now."""
    by = User(user.name or "dashboard")
    audit_request(backend, view, "sync", by, "Sync now")
    backend.requests.request_sync(view.key, by.name)
    return back_to(view, "sync")


@router.get("/suspend", response_class=HTMLResponse)
def ask_suspend(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show the form that asks who suspends or resumes an application, and why."""
    return show_application(pages, request, view, "suspend")


@router.post("/suspend", dependencies=checked)
def suspend(backend: BackendOf, view: ViewOf, user: OperatorOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Suspend an application; a name and a reason are required."""
    return _set_suspended(backend, view, True, reviewer(user, by), line(reason))


@router.post("/resume", dependencies=checked)
def resume(backend: BackendOf, view: ViewOf, user: OperatorOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Resume an application; a name and a reason are required."""
    return _set_suspended(backend, view, False, reviewer(user, by), line(reason))


def _set_suspended(backend: Backend, view: ApplicationView, suspended: bool, by: User, reason: str) -> RedirectResponse:
    action = "suspend" if suspended else "resume"
    if not by.name or not reason:
        raise InvalidInput(f"to {action} needs a name and a reason", object=f"Application {view.key}")
    audit_request(backend, view, action, by, reason)
    backend.requests.suspend(view.key, suspended)
    return back_to(view, action)


def audit_request(backend: Backend, view: ApplicationView, action: str, by: User, reason: str) -> None:
    """Record a request of a user before it is made."""
    backend.records.audit([AuditRecord.by_user(view.key, action, by, backend.clock.now(), reason)])


def back_to(view: ApplicationView, action: str) -> RedirectResponse:
    """Lead to the page of an application, which says that an action was requested."""
    response = RedirectResponse(app_url(view.key), 303)
    leave_notice(response, action)
    return response
