"""What people say of plans that wait: for the forms and for machines."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fastapi import HTTPException

from gitsync.gate.approvals import approvers, may_review
from gitsync.objects.application import Application
from gitsync.objects.change import HoldReason, Plan, Review
from gitsync.objects.phase import Phase
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pending import is_held, needs_approval, rejection
from gitsync.services.reviews import ReviewService


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """
    How it stands with a plan that waits, for who looks.

    ``is_asked``: a review would help; ``may_review``: by this person, else by ``approvers``; ``rejected``: by whom.
    """

    view: ApplicationView
    is_asked: bool
    may_review: bool
    approvers: str
    rejected: Review | None


class ReviewHandler:
    """Take a person's word on a plan, for exactly the plan that the person saw."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._reviews = ReviewService(engine.records, engine.clock)

    def pending(self, view: ApplicationView, person: User) -> PendingPlan:
        """Return how it stands with a plan that waits."""
        app, rejected = view.application, rejection(view, self._engine)
        return PendingPlan(
            view,
            is_asked=app is not None and (needs_approval(view) or rejected is not None),
            may_review=app is not None and may_review(app, person),
            approvers=approvers(app) if app is not None else "",
            rejected=rejected,
        )

    def approve(self, view: ApplicationView, digest: str, by: User, reason: str, *, overrule: bool = False) -> datetime:
        """Let the plan run once, and return until when; raise HTTPException when it is not the one that was shown."""
        app, plan = self._shown(view, digest)
        until = self._reviews.approve(app, plan, by, reason, overrule=overrule)
        if view.verdict is not None and HoldReason.WINDOW in view.verdict.holds:
            self._engine.requests.poll_now([view.key])  # an approval opens no window
        else:
            self._engine.requests.request_sync(view.key, by.name)
        return until

    def reject(self, view: ApplicationView, digest: str, by: User, reason: str) -> None:
        """Hold the plan until it changes; raise HTTPException when it is not the one that was shown."""
        app, plan = self._shown(view, digest)
        self._reviews.reject(app, plan, by, reason)
        self._engine.requests.poll_now([view.key])

    def _shown(self, view: ApplicationView, digest: str) -> tuple[Application, Plan]:
        if view.plan is None and Phase.of(view.status).is_held:
            raise HTTPException(409, "Another replica works on this application: ask its dashboard.")
        if view.plan is None or view.application is None or not is_held(view):
            raise HTTPException(409, "Nothing waits for approval here any more.")
        if view.plan.digest != digest:
            raise HTTPException(409, "The plan changed since the page was shown. Look at the new one first.")
        return view.application, view.plan


def reviewer(person: User, typed: str) -> User:
    """Return who signs: whoever is known, else the name that was typed."""
    return person if person.is_authenticated else User(line(typed))


def line(text: str) -> str:
    """Return what was typed as one visible line."""
    return visible(" ".join(text.split()))
