"""Approvals: who may give one, and when it expires. An approval is bound to the digest of one plan."""

from __future__ import annotations

from datetime import datetime, timedelta

from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Review, Risk
from gitsync.objects.user import User


def needs_approval(app: Application, risk: Risk) -> bool:
    """Whether a plan of this class needs an approval."""
    lowest = app.risk.approval
    return lowest is not None and risk.level >= lowest.level


def may_review(app: Application, person: User) -> bool:
    """Whether a user may approve and reject; without named approvers every user with access may."""
    groups, users = app.risk.approver_groups, app.risk.approver_users
    if not groups and not users:
        return True
    return person.is_authenticated and (person.name in users or not set(groups).isdisjoint(person.groups))


def approvers(app: Application) -> str:
    """Return the names of the groups and users that may approve."""
    return ", ".join((*app.risk.approver_groups, *app.risk.approver_users)) or "an approver"


def is_valid_approval(app: Application, review: Review | None) -> bool:
    """Whether a review is an approval by a user who is an approver of the Application now."""
    return review is not None and review.approves and may_review(app, review.by)


def expires(app: Application, given: datetime) -> datetime:
    """Return when an approval expires that is given at a time."""
    return given + timedelta(seconds=app.risk.approval_ttl)


def approval_message(app: Application, plan: Plan) -> str:
    """Return the message that states how many steps wait for which approvers."""
    steps = sum(change.risk is plan.risk for change in plan.writes)
    return f"{steps} {plan.risk.value.lower()} {'step waits' if steps == 1 else 'steps wait'} for {approvers(app)}"
