"""
Health of kinds that well-known operators define, one module per area.

A rule that names no other source follows the conditions and phases that the operator publishes in its CRD, judged as
the check of argoproj/argo-cd for the kind (resource_customizations/GROUP/KIND) judges them: users who migrate see the
same health.
"""

from __future__ import annotations

from gitsync.health.rules import Rule
from gitsync.health.vendors import (
    agents,
    argo,
    crossplane,
    databases,
    flux,
    gateway,
    inference,
    knative,
    kserve,
    kueue,
    observability,
    ray,
    scaling,
    secrets,
    snapshots,
)
from gitsync.objects.ref import GroupKind

RULES: dict[GroupKind, Rule] = {
    **agents.RULES,
    **inference.RULES,
    **ray.RULES,
    **argo.RULES,
    **flux.RULES,
    **gateway.RULES,
    **databases.RULES,
    **knative.RULES,
    **kserve.RULES,
    **kueue.RULES,
    **scaling.RULES,
    **observability.RULES,
    **secrets.RULES,
    **snapshots.RULES,
    **crossplane.RULES,
}
GROUP_RULES = crossplane.GROUP_RULES
