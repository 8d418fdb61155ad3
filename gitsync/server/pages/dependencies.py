"""What routes get from FastAPI: the templates, the reviews, the application of the path and the user."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, HTTPException, Query, Request

from gitsync.errors import Refused
from gitsync.gate.policy import Policy
from gitsync.gate.roles import may_operate
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.auth.access import current_user
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pages.templates import Pages
from gitsync.server.reviews import ReviewHandler


def _pages(request: Request) -> Pages:
    pages: Pages = request.app.state.pages
    return pages.seen_by(current_user(request))


def _reviews(request: Request) -> ReviewHandler:
    reviews: ReviewHandler = request.app.state.reviews
    return reviews


PagesOf = Annotated[Pages, Depends(_pages)]
ReviewsOf = Annotated[ReviewHandler, Depends(_reviews)]
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


def check_operator(backend: Backend, view: ApplicationView, user: User) -> None:
    """Raise Refused where the policies of an application name other operators than the user."""
    policy = backend.policies.of(view.application) if view.application is not None else Policy()
    if not may_operate(user, policy):
        who = user.name if user.is_authenticated else "a user without a proven name"
        raise Refused(
            f"{who} is not one of the operators that policy {policy.name} names", object=f"Application {view.key}"
        )


def _operator(backend: BackendOf, view: ViewOf, user: UserOf) -> User:
    """Return the user of a request to an application, who has to be one of its operators."""
    check_operator(backend, view, user)
    return user


OperatorOf = Annotated[User, Depends(_operator)]
"""The user of a request, who is an operator of the application."""
