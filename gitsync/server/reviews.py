"""Plans that wait for a review, as they are shown to the user who may give it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from gitsync.gate.approvals import approvers, may_review
from gitsync.gate.policy import Policy
from gitsync.objects.change import Plan, Review
from gitsync.objects.user import User
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.server.pending import needs_approval, rejection

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


class PendingPlans:
    """The plans that wait; those shown last are remembered, to say what changed since a user saw one."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._shown_plans: OrderedDict[tuple[str, str], Plan] = OrderedDict()

    def of(self, view: ApplicationView, person: User) -> PendingPlan:
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


def reviewer(person: User, typed: str) -> User:
    """Return the reviewer: the signed-in user, else the name that was typed."""
    return person if person.is_authenticated else User(line(typed))


def line(text: str) -> str:
    """Return what was typed as one visible line."""
    return visible(" ".join(text.split()))
