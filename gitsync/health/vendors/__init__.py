"""
Health of kinds that well-known operators define, one module per area.

A rule that names no other source follows the conditions and phases that the operator publishes in its CRD, judged as
the check of argoproj/argo-cd for the kind (resource_customizations/GROUP/KIND) judges them: users who migrate see the
same health.
"""

from __future__ import annotations

from gitsync.health.rules import Rule
from gitsync.health.vendors import agents, batch, data, gateway, gitops, inference, knative, platform
from gitsync.objects.ref import GroupKind

RULES: dict[GroupKind, Rule] = {
    **agents.RULES,
    **batch.RULES,
    **data.RULES,
    **gateway.RULES,
    **gitops.RULES,
    **inference.RULES,
    **knative.RULES,
    **platform.RULES,
}
GROUP_RULES = platform.GROUP_RULES
