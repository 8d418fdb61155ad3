"""Requests of users: sync, suspend and resume an application. ``services.requests`` decides and audits them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.ports import ApplicationView
from gitsync.server.auth.security import check_form
from gitsync.server.formatting import app_url
from gitsync.server.notices import leave_notice
from gitsync.server.pages.dependencies import PagesOf, RequestsOf, UserOf, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.reviews import line, reviewer
from gitsync.services.requests import RequestKind

router = APIRouter(prefix="/apps/{namespace}/{name}")
checked = [Depends(check_form)]

Text = Annotated[str, Form(max_length=1000)]


@router.post("/sync", dependencies=checked)
def sync(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Request a sync now; the button beside the name of an application sends neither a name nor a reason."""
    requests.request(view, RequestKind.SYNC, reviewer(user, by or "dashboard"), line(reason))
    return back_to(view, "sync")


@router.get("/suspend", response_class=HTMLResponse)
def ask_suspend(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show the form that asks who suspends or resumes an application, and why."""
    return show_application(pages, request, view, "suspend")


@router.post("/suspend", dependencies=checked)
def suspend(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Suspend an application."""
    requests.request(view, RequestKind.SUSPEND, reviewer(user, by), line(reason))
    return back_to(view, "suspend")


@router.post("/resume", dependencies=checked)
def resume(requests: RequestsOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Resume an application."""
    requests.request(view, RequestKind.RESUME, reviewer(user, by), line(reason))
    return back_to(view, "resume")


def back_to(view: ApplicationView, action: str) -> RedirectResponse:
    """Lead to the page of an application, which says that an action was requested."""
    response = RedirectResponse(app_url(view.key), 303)
    leave_notice(response, action)
    return response
