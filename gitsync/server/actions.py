"""Requests of users: sync, suspend and resume an application, revert a commit. Each is audited before it is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from gitsync.errors import InvalidInput
from gitsync.objects.application import Application
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.auth.security import check_form
from gitsync.server.backend import Backend
from gitsync.server.formatting import app_url
from gitsync.server.notices import leave_notice
from gitsync.server.pages.dependencies import BackendOf, PagesOf, UserOf, ViewOf
from gitsync.server.pages.layout import show_application
from gitsync.server.reviews import line, reviewer

router = APIRouter(prefix="/apps/{namespace}/{name}")
checked = [Depends(check_form)]

Text = Annotated[str, Form(max_length=1000)]


@router.post("/sync", dependencies=checked)
def sync(backend: BackendOf, view: ViewOf, user: UserOf) -> RedirectResponse:
    """Request a sync now."""
    by = User(user.name or "dashboard")
    _audit(backend, view, "sync", by, "Sync now")
    backend.requests.request_sync(view.key, by.name)
    return _back(view, "sync")


@router.get("/suspend", response_class=HTMLResponse)
def ask_suspend(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show the form that asks who suspends or resumes an application, and why."""
    return show_application(pages, request, view, "suspend")


@router.post("/suspend", dependencies=checked)
def suspend(backend: BackendOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Suspend an application; a name and a reason are required."""
    return _set_suspended(backend, view, True, reviewer(user, by), line(reason))


@router.post("/resume", dependencies=checked)
def resume(backend: BackendOf, view: ViewOf, user: UserOf, by: Text = "", reason: Text = "") -> RedirectResponse:
    """Resume an application; a name and a reason are required."""
    return _set_suspended(backend, view, False, reviewer(user, by), line(reason))


@router.get("/revert", response_class=HTMLResponse)
def ask_revert(request: Request, pages: PagesOf, view: ViewOf) -> HTMLResponse:
    """Show the commit that a revert takes back, and the applications that follow the same branch."""
    app = _readable(view)
    commits = pages.engine.reverts.commits(app)
    applied = str((view.status.get("revision") or {}).get("applied", ""))
    return show_application(
        pages,
        request,
        view,
        "revert",
        commits=commits,
        is_applied=bool(commits) and commits[0].id == applied,
        affected=_followers(pages.engine, app),
    )


@router.post("/revert", dependencies=checked)
def revert(
    backend: BackendOf,
    view: ViewOf,
    user: UserOf,
    commit: Text,
    by: Text = "",
    branch: Text = "",
    reason: Text = "",
) -> RedirectResponse:
    """Push a revert of the newest commit, to the tracked branch or to one for review."""
    app = _readable(view)
    commits = backend.reverts.commits(app)
    if [item.id for item in commits] != [commit]:
        raise HTTPException(409, "The branch moved since the page was shown. Open the revert page again.")
    author = reviewer(user, by)
    _audit(backend, view, "revert", author, line(reason), commit=commit)
    backend.reverts.push(app, commits, author=author.name or "dashboard", branch=branch.strip())
    if not branch.strip():
        backend.requests.poll_now([view.key])
    return _back(view, "revert")


def _set_suspended(backend: Backend, view: ApplicationView, suspended: bool, by: User, reason: str) -> RedirectResponse:
    action = "suspend" if suspended else "resume"
    if not by.name or not reason:
        raise InvalidInput(f"to {action} needs a name and a reason", object=f"Application {view.key}")
    _audit(backend, view, action, by, reason)
    backend.requests.suspend(view.key, suspended)
    return _back(view, action)


def _audit(backend: Backend, view: ApplicationView, action: str, by: User, reason: str, *, commit: str = "") -> None:
    record = AuditRecord.by_user(view.key, action, by, backend.clock.now(), reason)
    backend.records.audit([replace(record, commit=commit)])


def _followers(backend: Backend, app: Application) -> list[str]:
    """Return the applications that follow the same branch of the same repository."""
    wanted = (app.source.repo_url, app.source.revision)
    return [
        view.key
        for view in backend.view.applications()
        if view.application is not None
        and (view.application.source.repo_url, view.application.source.revision) == wanted
    ]


def _readable(view: ApplicationView) -> Application:
    """Return the Application of a view; answer 409 while its spec cannot be read."""
    if view.application is None:
        raise HTTPException(409, "The spec of the application cannot be read, so nothing can be reverted.")
    return view.application


def _back(view: ApplicationView, action: str) -> RedirectResponse:
    response = RedirectResponse(app_url(view.key), 303)
    leave_notice(response, action)
    return response
