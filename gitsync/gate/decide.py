"""Decide whether a plan may run now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.approvals import asks, needs_approval
from gitsync.gate.guards import empty_render, mass_deletion, too_many
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Decision, Plan, Verdict


def decide(
    plan: Plan,
    app: Application,
    policy: Policy,
    approver: str,
    now: datetime,
    *,
    manual: bool = False,
    violations: Iterable[str] = (),
) -> Verdict:
    """
    Return whether a plan may run: refused, held (for a person or a window), or allowed.

    ``approver`` is who approved exactly this plan, empty when nobody did. ``violations`` are what policy, schemas
    and manifest checks said of the objects; any of them refuses the whole plan before its first write. ``manual``:
    a person asked for this sync.
    """
    refusals = (*violations, *plan.refusals, *_refusals(plan, policy))
    if refusals:
        return Verdict(Decision.REFUSED, refusals)
    if not plan.writes:
        return Verdict(Decision.ALLOWED)
    try:
        window = windows.state(app.sync.windows, now, manual=manual)
    except InvalidInput as error:
        return Verdict(Decision.REFUSED, (str(error),))
    if not window.allowed:
        return Verdict(Decision.HELD, (window.reason,))
    waits = _waits(plan, app, policy)
    if waits and not approver:
        return Verdict(Decision.HELD, waits)
    return Verdict(Decision.ALLOWED, waits, approver if waits else "")


def _refusals(plan: Plan, policy: Policy) -> tuple[str, ...]:
    return tuple(reason for reason in (empty_render(plan), too_many(plan, policy)) if reason)


def _waits(plan: Plan, app: Application, policy: Policy) -> tuple[str, ...]:
    """Return why a person has to approve, empty when nobody has to."""
    reasons = [asks(app, plan)] if needs_approval(app, plan.risk) else []
    if app.risk.approval is not None:
        reasons += [reason for reason in (mass_deletion(plan, app, policy),) if reason]
    return tuple(reasons)
