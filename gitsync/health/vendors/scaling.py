"""
Health of KEDA and Karpenter.

Source: kedacore/keda 2.20, apis/keda/v1alpha1/condition_types.go (Ready, Active, Fallback, Paused, HPAActive) and
pkg/scaling/executor (Ready is Unknown with a message while some triggers fail, and without one at first);
kubernetes-sigs/karpenter, pkg/apis/v1/nodeclaim_status.go; argoproj/argo-cd, resource_customizations/keda.sh and
karpenter.sh.
"""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def node_claim(live: Manifest) -> HealthStatus:
    """Judge a NodeClaim: given up, ready, or how far the node has come."""
    generation, observed = at(live, "metadata", "generation"), at(live, "status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return progressing("Waiting for NodeClaim spec to be reconciled")
    found = {text(each, "type"): each for each in reversed(conditions(live))}
    if found.get("Disrupting", {}).get("status") == "True":
        return suspended(message(found["Disrupting"]))
    ready = found.get("Ready", {})
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("status") == "False":
        return degraded(message(ready))
    for kind, detail in (
        ("Initialized", "Node initialized, waiting for Ready"),
        ("Registered", "Node registered, waiting for initialization"),
        ("Launched", "Node launched, waiting for registration"),
    ):
        if found.get(kind, {}).get("status") == "True":
            return progressing(detail)
    return progressing("Waiting for NodeClaim to be launched")


def scaled_object(live: Manifest) -> HealthStatus:
    """
    Judge a KEDA ScaledObject; on its fallback, or without metrics for its HorizontalPodAutoscaler, it is degraded.

    KEDA deletes the autoscaler of a paused one and keeps the last HPAActive, which does not count then.
    """
    status = _keda(live, "Creating HorizontalPodAutoscaler Object")
    scaling = condition(conditions(live), "HPAActive") or {}
    if status.health is Health.HEALTHY and scaling.get("status") == "False":
        return degraded(message(scaling))
    return status


def scaled_job(live: Manifest) -> HealthStatus:
    """Judge a KEDA ScaledJob."""
    return _keda(live, "Waiting for ScaledJob")


def _keda(live: Manifest, waiting: str) -> HealthStatus:
    found = conditions(live)
    failed = [each for each in found if _is_failure(each)]
    if failed:
        return degraded(message(failed[-1]))
    paused, ready = condition(found, "Paused") or {}, condition(found, "Ready") or {}
    if paused.get("status") == "True":
        return suspended(message(paused))
    return healthy(message(ready)) if ready.get("status") == "True" else progressing(waiting)


def _is_failure(sign: dict[str, Any]) -> bool:
    if (sign.get("type"), sign.get("status")) in (("Ready", "False"), ("Fallback", "True")):
        return True
    return sign.get("type") == "Ready" and sign.get("status") == "Unknown" and bool(message(sign))


RULES: dict[GroupKind, Rule] = {
    GroupKind("karpenter.sh", "NodeClaim"): node_claim,
    GroupKind("keda.sh", "ScaledObject"): scaled_object,
    GroupKind("keda.sh", "ScaledJob"): scaled_job,
}
