"""Mass-deletion limits, applied regardless of risk class."""

from __future__ import annotations

from collections import Counter

from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Plan

_DELETES = (Action.PRUNE, Action.REPLACE)


def mass_deletion(plan: Plan, app: Application, policy: Policy) -> str:
    """
    Return why a plan that deletes too many objects needs approval; empty when it does not.

    An empty render always waits. Objects that are replaced by others of their kind, as a ConfigMap under a new name
    is, do not count against the share.
    """
    prunes = Counter(change.ref.of for change in plan.changes if change.action is Action.PRUNE)
    creates = Counter(change.ref.of for change in plan.changes if change.action is Action.CREATE)
    deletes = sum(change.action in _DELETES for change in plan.changes)
    held = sum(change.live is not None for change in plan.changes)
    counted = f"would delete {deletes} of {held} objects"
    if prunes and not any(change.desired is not None for change in plan.changes):
        return f"{counted}, because the render is empty; approve this plan if this is intended"
    if deletes > app.risk.max_deletes:
        return f"{counted}, more than maxDeletes ({app.risk.max_deletes}); approve this plan if this is intended"
    lost = (prunes - creates).total()
    if lost > 1 and lost > policy.max_prune_share * held:
        return f"{counted}, more than {policy.max_prune_share:.0%}; approve this plan if this is intended"
    return ""


def too_many(plan: Plan, policy: Policy) -> str:
    """Return why a plan with more objects than the operator allows is refused; empty for any other."""
    count = len(plan.changes)
    return f"has {count} objects, the limit is {policy.max_objects}" if count > policy.max_objects else ""
