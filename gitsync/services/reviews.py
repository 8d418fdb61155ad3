"""Approve or reject one plan: check permissions, store the review, write the audit record."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from gitsync.errors import InvalidInput, Refused
from gitsync.gate.approvals import approvers, expires, may_approve, may_review
from gitsync.gate.decide import rejection_message
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Review
from gitsync.objects.review import review_link
from gitsync.objects.user import User
from gitsync.ports import Clock, Records


class ReviewService:
    """
    Store reviews of plans. The newest review counts, until the plan changes.

    A rejected plan can only be approved with ``overrule``, which the audit records.
    """

    def __init__(self, records: Records, clock: Clock, policy_of: Callable[[Application], Policy]) -> None:
        self._records = records
        self._clock = clock
        self._policy_of = policy_of

    def approve(self, app: Application, plan: Plan, by: User, reason: str, *, overrule: bool = False) -> datetime:
        """Approve one run of the plan; return when that expires. Raise Refused where user or plan is not allowed."""
        policy = self._policy_of(app)
        _check(app, by, policy)
        if not may_approve(app, plan, by, policy):
            raise Refused(
                f"{by.name} is an author of its commits, and policy {policy.name} rejects their approval",
                object=f"Application {app.key}",
                hint=f"another user approves it: {approvers(app, policy)}",
            )
        now = self._clock.now()
        before = self._records.review(app.key, plan.digest, now)
        is_overruled = before is not None and not before.approves
        if before is not None and is_overruled and not overrule:
            raise Refused(
                f"the plan was {rejection_message(before)}",
                object=f"Application {app.key}",
                hint="approve it with --overrule, or change Git",
            )
        until = expires(app, now)
        said = f"overrules: {rejection_message(before)}" if before is not None and is_overruled else ""
        self._store(app, plan, Review(by, True, reason, until), said)
        return until

    def reject(self, app: Application, plan: Plan, by: User, reason: str) -> None:
        """Hold the plan until it changes. Raise Refused where the user may not review it."""
        _check(app, by, self._policy_of(app))
        if not reason:
            raise InvalidInput("a rejection needs a reason", object=f"Application {app.key}", hint="give a reason")
        self._store(app, plan, Review(by, False, reason), "")

    def _store(self, app: Application, plan: Plan, review: Review, message: str) -> None:
        self._records.keep_review(review_link(app.key, plan, review, self._clock.now(), message))


def _check(app: Application, by: User, policy: Policy) -> None:
    if not by.name:
        raise InvalidInput("a review needs a name", object=f"Application {app.key}", hint="give your name")
    if not may_review(app, by, policy):
        named = approvers(app, policy)
        who = f"{by.name} is not one of {named}" if by.is_authenticated else f"{by.name!r} is not authenticated"
        raise Refused(
            f"only {named} may review this plan, and {who}",
            object=f"Application {app.key}",
            hint="sign in to the dashboard with a token of your own, or give it to the command line with --token-file",
        )
