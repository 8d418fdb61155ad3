"""What differs between a plan that a user saw and the plan of now. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.objects.change import Change, Plan
from gitsync.objects.ref import ObjectRef
from gitsync.server.formatting import visible

_LISTED = 20


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One difference between two plans: what happened to a step, and which one."""

    what: str
    text: str


def plan_changes(before: Plan, now: Plan) -> tuple[PlanChange, ...]:
    """Return what changed from one plan to another, at most 20 steps and then their number."""
    old, new = _steps(before), _steps(now)
    found = [PlanChange("new step", _label(new[ref])) for ref in new.keys() - old.keys()]
    found += [PlanChange("no longer planned", _label(old[ref])) for ref in old.keys() - new.keys()]
    found += [
        PlanChange("changed", _label(new[ref]))
        for ref in new.keys() & old.keys()
        if (old[ref].action, old[ref].desired, old[ref].differences)
        != (new[ref].action, new[ref].desired, new[ref].differences)
    ]
    found.sort(key=lambda item: (item.what, item.text))
    if before.revision != now.revision:
        found.insert(0, PlanChange("other commit", f"{before.revision[:7]} → {now.revision[:7]}"))
    if not found:
        return (PlanChange("changed", "an object in the cluster was written since; the steps are the same"),)
    rest = len(found) - _LISTED
    return (*found[:_LISTED], *([PlanChange("and", f"{rest} more")] if rest > 0 else []))


def _steps(plan: Plan) -> dict[ObjectRef, Change]:
    return {step.ref: step for step in plan.writes}


def _label(step: Change) -> str:
    return visible(f"{step.action.value} {step.ref} ({step.risk.value})")
