"""Approvals: who may give one, and when it lapses. An approval is bound to the digest of one plan."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Risk


def needs_approval(app: Application, risk: Risk) -> bool:
    """Tell whether a plan of this class waits for a person."""
    lowest = app.risk.approval
    return lowest is not None and risk.level >= lowest.level


def may_approve(app: Application, groups: Iterable[str]) -> bool:
    """Tell whether a person of these groups may approve; with no approver groups named, everyone who is let in may."""
    return not app.risk.approver_groups or not set(app.risk.approver_groups).isdisjoint(groups)


def expires(app: Application, given: datetime) -> datetime:
    """Return when an approval lapses that is given at a time."""
    return given + timedelta(seconds=app.risk.approval_ttl)


def asks(app: Application, plan: Plan) -> str:
    """Return the line that says what waits for whom."""
    steps = sum(change.risk is plan.risk for change in plan.writes)
    who = ", ".join(app.risk.approver_groups) or "an approver"
    return f"{steps} {plan.risk.value.lower()} {'step waits' if steps == 1 else 'steps wait'} for {who}"
