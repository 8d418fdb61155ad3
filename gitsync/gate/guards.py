"""Guards against mass deletion and against two owners: reasons to hold or refuse a plan whatever its steps say."""

from __future__ import annotations

from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Plan

_DELETES = (Action.PRUNE, Action.REPLACE)


def empty_render(plan: Plan) -> str:
    """Return why a plan is refused that declares nothing and would delete everything; empty when it does not."""
    prunes = sum(change.action is Action.PRUNE for change in plan.changes)
    declared = sum(change.desired is not None for change in plan.changes)
    if prunes and not declared:
        return f"the render is empty and would delete {prunes} of {prunes} objects; an empty render prunes nothing"
    return ""


def mass_deletion(plan: Plan, app: Application, policy: Policy) -> str:
    """Return why a plan with many deletes waits for a person whatever its class; empty when it does not."""
    deletes = sum(change.action in _DELETES for change in plan.changes)
    prunes = sum(change.action is Action.PRUNE for change in plan.changes)
    held = sum(change.live is not None for change in plan.changes)
    if deletes > app.risk.max_deletes:
        return f"would delete {deletes} of {held} objects, more than maxDeletes ({app.risk.max_deletes})"
    if prunes > 1 and prunes > policy.max_prune_share * held:
        return f"would delete {prunes} of {held} objects, more than {policy.max_prune_share:.0%}"
    return ""


def too_many(plan: Plan, policy: Policy) -> str:
    """Return why a plan is refused that has more objects than the operator allows."""
    count = len(plan.changes)
    return f"has {count} objects, the limit is {policy.max_objects}" if count > policy.max_objects else ""
