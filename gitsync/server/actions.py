"""What people may ask of an application: sync, suspend, approve or reject a plan, revert a commit."""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException
from fastapi.responses import RedirectResponse

from gitsync.objects.application import Application
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.auth.access import current_user
from gitsync.server.auth.security import check_form
from gitsync.server.backend import Backend
from gitsync.server.formatting import app_url
from gitsync.server.reviews import ReviewHandler, line, reviewer

Finder = Callable[[str, str], ApplicationView]
Text = Annotated[str, Form(max_length=1000)]
Asker = Annotated[User, Depends(current_user)]


def router(engine: Backend, found: Finder, reviewing: ReviewHandler) -> APIRouter:
    """Return the forms of applications; every one is checked to come from a page of ours."""
    routes = APIRouter(prefix="/apps/{namespace}/{name}")
    checked = [Depends(check_form)]
    Found = Annotated[ApplicationView, Depends(found)]  # noqa: N806 - names a type

    @routes.post("/sync", dependencies=checked)
    def sync(view: Found, person: Asker) -> RedirectResponse:
        engine.requests.request_sync(view.key, person.name or "dashboard")
        return _back(view)

    @routes.post("/suspend", dependencies=checked)
    def suspend(view: Found) -> RedirectResponse:
        engine.requests.suspend(view.key, True)
        return _back(view)

    @routes.post("/resume", dependencies=checked)
    def resume(view: Found) -> RedirectResponse:
        engine.requests.suspend(view.key, False)
        return _back(view)

    @routes.post("/approve", dependencies=checked)
    def approve(
        view: Found, person: Asker, digest: Text, by: Text = "", reason: Text = "", overrule: Text = ""
    ) -> RedirectResponse:
        reviewing.approve(view, digest, reviewer(person, by), line(reason), overrule=bool(overrule))
        return _back(view)

    @routes.post("/reject", dependencies=checked)
    def reject(view: Found, person: Asker, digest: Text, by: Text = "", reason: Text = "") -> RedirectResponse:
        reviewing.reject(view, digest, reviewer(person, by), line(reason))
        return _back(view, "/plan")

    @routes.post("/revert", dependencies=checked)
    def revert(view: Found, person: Asker, commit: Text, by: Text = "", branch: Text = "") -> RedirectResponse:
        app = readable(view)
        commits = engine.undo.commits(app)
        if [item.id for item in commits] != [commit]:
            raise HTTPException(409, "The branch moved since the page was shown. Look again before reverting.")
        author = reviewer(person, by).name or "dashboard"
        engine.undo.push(app, commits, author=author, branch=branch.strip())
        if not branch.strip():
            engine.requests.poll_now([view.key])
        return _back(view)

    return routes


def readable(view: ApplicationView) -> Application:
    """Return the Application of a view; answer 409 while its spec cannot be read."""
    if view.application is None:
        raise HTTPException(409, "The application cannot be read, so nothing can be reverted.")
    return view.application


def _back(view: ApplicationView, page: str = "") -> RedirectResponse:
    return RedirectResponse(app_url(view.key) + page, 303)
