"""Decide whether a plan may run now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from gitsync.errors import InvalidInput
from gitsync.gate import windows
from gitsync.gate.approvals import asks, needs_approval
from gitsync.gate.guards import mass_deletion, too_many
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
    refusals = tuple(reason for reason in (*violations, *plan.refusals, too_many(plan, policy)) if reason)
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


def _waits(plan: Plan, app: Application, policy: Policy) -> tuple[str, ...]:
    """Return why a person has to approve, empty when nobody has to; the guard asks also where no class waits."""
    guard = mass_deletion(plan, app, policy)
    asked = asks(app, plan) if needs_approval(app, plan.risk) else ""
    return tuple(reason for reason in (guard, asked) if reason)
