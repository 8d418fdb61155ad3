"""
Health of KEDA and Karpenter.

Source: kedacore/keda, apis/keda/v1alpha1/condition_types.go (Ready, Active, Fallback, Paused);
kubernetes-sigs/karpenter, pkg/apis/v1/nodeclaim_status.go; argoproj/argo-cd, resource_customizations/keda.sh and
karpenter.sh.
"""

from __future__ import annotations

from gitsync.health.fields import conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
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
    """Judge a KEDA ScaledObject; running on its fallback is degraded."""
    return _keda(live, "Creating HorizontalPodAutoscaler Object", {("Ready", "False"), ("Fallback", "True")})


def scaled_job(live: Manifest) -> HealthStatus:
    """Judge a KEDA ScaledJob."""
    return _keda(live, "Waiting for ScaledJob", {("Ready", "False"), ("Ready", "Unknown")})


def _keda(live: Manifest, waiting: str, bad: set[tuple[str, str]]) -> HealthStatus:
    signs = {(text(each, "type"), text(each, "status")) for each in conditions(live)}
    telling = bad | {("Ready", "True"), ("Paused", "True")}
    detail = next(
        (message(each) for each in reversed(conditions(live)) if (text(each, "type"), text(each, "status")) in telling),
        "",
    )
    if signs & bad:
        return degraded(detail)
    if ("Ready", "True") in signs:
        return suspended(detail) if ("Paused", "True") in signs else healthy(detail)
    return progressing(waiting)


RULES: dict[GroupKind, Rule] = {
    GroupKind("karpenter.sh", "NodeClaim"): node_claim,
    GroupKind("keda.sh", "ScaledObject"): scaled_object,
    GroupKind("keda.sh", "ScaledJob"): scaled_job,
}
