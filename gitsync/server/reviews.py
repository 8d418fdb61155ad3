"""Reviews of plans that wait, for the forms and for the API."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from fastapi import HTTPException

from gitsync.gate.approvals import approvers, may_review
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import HoldReason, Plan, Review
from gitsync.objects.manifest import at
from gitsync.objects.phase import Phase
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pending import is_held, needs_approval, rejection
from gitsync.services.reviews import Approval, ReviewService

_SHOWN_PLANS = 64
"""Plans that are remembered to say what changed since."""


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """
    A plan that waits, and what the user who views it may do.

    ``needs_review``: a review would help; ``may_review``: by this user, else by ``approvers``; ``rejected``: by whom.
    """

    view: ApplicationView
    needs_review: bool
    may_review: bool
    approvers: str
    rejected: Review | None


class ReviewHandler:
    """Take reviews of plans, each for exactly the plan that the user saw; remember the plans shown last."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._shown_plans: OrderedDict[tuple[str, str], Plan] = OrderedDict()
        self._reviews = ReviewService(engine.records, engine.clock, engine.policies.of)

    def pending(self, view: ApplicationView, person: User) -> PendingPlan:
        """Return what a user may do about a plan that waits, and remember the plan as shown."""
        app, rejected = view.application, rejection(view, self._engine)
        policy = self._engine.policies.of(app) if app is not None else Policy()
        if view.plan is not None:
            with self._lock:
                self._shown_plans[view.key, view.plan.digest] = view.plan
                while len(self._shown_plans) > _SHOWN_PLANS:
                    self._shown_plans.popitem(last=False)
        return PendingPlan(
            view,
            needs_review=app is not None and (needs_approval(view) or rejected is not None),
            may_review=app is not None and may_review(app, person, policy),
            approvers=approvers(app, policy) if app is not None else "",
            rejected=rejected,
        )

    def shown(self, key: str, digest: str) -> Plan | None:
        """Return a plan that was shown before, None when it is not remembered."""
        with self._lock:
            return self._shown_plans.get((key, digest))

    def approve(self, view: ApplicationView, digest: str, approval: Approval) -> datetime:
        """
        Let the plan, or some steps of it, run once, and return until when.

        Raise HTTPException when it is not the plan that was shown.
        """
        app, plan = self._reviewable(view, digest)
        until = self._reviews.approve(app, plan, approval)
        is_closed = view.verdict is not None and HoldReason.WINDOW in view.verdict.holds
        if is_closed or _syncs_by_itself(app, plan, view):
            self._engine.requests.poll_now([view.key])  # an approval opens no window, and is not what starts a sync
        else:
            self._engine.requests.request_sync(view.key, approval.by.name)
        return until

    def reject(self, view: ApplicationView, digest: str, by: User, reason: str) -> None:
        """Hold the plan until it changes; raise HTTPException when it is not the one that was shown."""
        app, plan = self._reviewable(view, digest)
        self._reviews.reject(app, plan, by, reason)
        self._engine.requests.poll_now([view.key])

    def _reviewable(self, view: ApplicationView, digest: str) -> tuple[Application, Plan]:
        if view.plan is None and Phase.of(view.status).is_held:
            raise HTTPException(409, "Another replica works on this application: review the plan on its dashboard.")
        if view.plan is None or view.application is None or not is_held(view):
            raise HTTPException(409, "No plan of this application waits for approval any more.")
        if view.plan.digest != digest:
            raise HTTPException(409, "The plan changed since the page was shown. Nothing was decided: review it again.")
        return view.application, view.plan


def _syncs_by_itself(app: Application, plan: Plan, view: ApplicationView) -> bool:
    """Whether the controller syncs an approved plan without a request: automation is on, and the plan is not drift."""
    is_drift = plan.revision == at(view.status, "revision", "applied", default="")
    return app.sync.automated and (app.sync.self_heal or not is_drift)


def reviewer(person: User, typed: str) -> User:
    """Return the reviewer: the signed-in user, else the name that was typed."""
    return person if person.is_authenticated else User(line(typed))


def line(text: str) -> str:
    """Return what was typed as one visible line."""
    return visible(" ".join(text.split()))
