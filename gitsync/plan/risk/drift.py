"""The risk class of what was changed in the cluster: drift and fields that others added. Never of the revert."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gitsync.objects.change import DRIFT, Action, Change, FieldDifference, Risk
from gitsync.plan.risk.table import classify

_SENSITIVE = re.compile(
    r"\.(env|envFrom|command|args|image|securityContext|serviceAccountName|hostNetwork|hostPID|volumes|tools|model"
    r"|prompt)\b"
)
"""Paths that decide what a workload runs, where its data goes and what it may do."""
_IN_PODS = re.compile(r"(^|\.)(containers|initContainers|ephemeralContainers)\[")


@dataclass(frozen=True, slots=True)
class DriftRisk:
    """The class of a change that was made in the cluster, the rule that decided and the reason."""

    risk: Risk
    rule: str
    reason: str


def drift_risk(change: Change, foreign: Iterable[FieldDifference] = ()) -> DriftRisk | None:
    """
    Return the class of what others did to an object, None where they did nothing to it.

    The declared object counts as the one before and the live one as the one after. ``change`` must be drift, not an
    effect of a new commit.
    """
    risks = [item for item in (_declared(change), added_risk(foreign)) if item is not None]
    return max(risks, key=lambda item: item.risk.level, default=None)


def _declared(change: Change) -> DriftRisk | None:
    if change.desired is None:
        return None
    if change.live is None:
        # Without a reason: ``classify`` would append to that of the plan's own step.
        step = replace(change, action=Action.PRUNE, live=change.desired, desired=None, differences=(), reason="")
    else:
        swapped = tuple(
            replace(item, live=item.desired, desired=item.live) for item in change.differences if item.kind in DRIFT
        )
        if not swapped:
            return None
        step = replace(
            change, action=Action.UPDATE, live=change.desired, desired=change.live, differences=swapped, reason=""
        )
    judged = classify(step)
    return DriftRisk(judged.risk, judged.rule, judged.reason)


def added_risk(foreign: Iterable[FieldDifference]) -> DriftRisk | None:
    """Return the class of fields that others added, None where there are none."""
    paths = [item.path for item in foreign]
    if not paths:
        return None
    sensitive = [path for path in paths if _SENSITIVE.search(path) or _IN_PODS.search(path)]
    if sensitive:
        return DriftRisk(Risk.DANGEROUS, "adds-runtime-settings", f"adds {sensitive[0]}")
    return DriftRisk(Risk.SAFE, "adds-fields", f"adds {paths[0]}")
