"""What routes get from FastAPI: the templates, plans, requests, the application of the path and the user."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.auth.access import current_user
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.templates import Pages
from gitsync.server.reviews import PendingPlans
from gitsync.services.requests import UserRequests


def _pages(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages.seen_by(current_user(request))


def _pending_plans(request: Request) -> PendingPlans:
    plans: PendingPlans = request.app.state.pending_plans
    return plans


def _requests(request: Request) -> UserRequests:
    requests: UserRequests = request.app.state.requests
    return requests


PagesOf = Annotated[Pages, Depends(_pages)]
PendingPlansOf = Annotated[PendingPlans, Depends(_pending_plans)]
RequestsOf = Annotated[UserRequests, Depends(_requests)]
UserOf = Annotated[User, Depends(current_user)]
SearchText = Annotated[str, Query(max_length=300)]
Start = Annotated[int, Query(ge=0, le=10_000_000)]


def _backend(pages: PagesOf) -> Backend:
    return pages.engine


BackendOf = Annotated[Backend, Depends(_backend)]


def _application_or_404(backend: BackendOf, namespace: str, name: str) -> ApplicationView:
    """Return the application of a path, or answer 404."""
    view = backend.view.application(f"{namespace}/{name}")
    if view is None:
        raise HTTPException(404, f"Application {visible(namespace)}/{visible(name)} not found.")
    return view


ViewOf = Annotated[ApplicationView, Depends(_application_or_404)]
