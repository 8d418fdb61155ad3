"""
Health of what a platform team runs: Crossplane, KEDA, Karpenter, Prometheus and OpenTelemetry.

Source: kedacore/keda 2.20, apis/keda/v1alpha1/condition_types.go (Ready, Active, Fallback, Paused, HPAActive) and
pkg/scaling/executor (Ready is Unknown with a message while some triggers fail, and without one at first);
kubernetes-sigs/karpenter, pkg/apis/v1/nodeclaim_status.go; argoproj/argo-cd, resource_customizations/keda.sh and
karpenter.sh.
"""

from __future__ import annotations

import re
from typing import Any

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    message,
    progressing,
    status_of,
    suspended,
    text,
)
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def crossplane_package(live: Manifest) -> HealthStatus:
    """Judge a Crossplane package by whether it is installed and healthy."""
    if at(live, "status", "conditions") is None:
        return progressing("Waiting for provider to be installed")
    by_type = {text(condition, "type"): condition for condition in conditions_of(live)}
    signs: list[dict[str, Any]] = [by_type.get("Installed", {}), by_type.get("Healthy", {})]
    detail = " ".join(text(condition, "reason") for condition in signs)
    return healthy(detail) if all(condition.get("status") == "True" for condition in signs) else degraded(detail)


_UP_TO_DATE = "Resource is up-to-date."
_NO_STATUS = {
    "crossplane.io": frozenset(
        {
            "Composition",
            "CompositionRevision",
            "DeploymentRuntimeConfig",
            "ClusterProviderConfig",
            "ProviderConfig",
            "ProviderConfigUsage",
            "ControllerConfig",
        }
    ),
    "upbound.io": frozenset({"ClusterProviderConfig", "ProviderConfig", "ProviderConfigUsage"}),
}


_READY = ("Ready", "Healthy", "Offered", "Established", "ValidPipeline", "RevisionHealthy")


def crossplane(live: Manifest) -> HealthStatus:
    """Judge any Crossplane object: configuration is healthy once it exists, resources by Synced and Ready."""
    return _managed(live, _NO_STATUS["crossplane.io"], _READY)


def upbound(live: Manifest) -> HealthStatus:
    """Judge any Upbound object, as those of Crossplane."""
    return _managed(live, _NO_STATUS["upbound.io"], ("Ready",))


def _managed(live: Manifest, no_status: frozenset[str], ready: tuple[str, ...]) -> HealthStatus:
    kind = text(live, "kind")
    if live.get("status") is None or (not status_of(live) and kind in no_status):
        return healthy(_UP_TO_DATE)
    if at(live, "status", "conditions") is None:
        if kind in ("ProviderConfig", "ClusterProviderConfig") and at(live, "status", "users") is not None:
            return healthy("Resource is in use.")
        return progressing("Provisioning ...")
    conditions = conditions_of(live)
    for condition in conditions:
        if condition.get("type") in ("LastAsyncOperation", "Synced") and condition.get("status") == "False":
            return degraded(message(condition))
    if any(condition.get("type") in ready and condition.get("status") == "True" for condition in conditions):
        return healthy(_UP_TO_DATE)
    return progressing("Provisioning ...")


GROUP_RULES: dict[str, Rule] = {"crossplane.io": crossplane, "upbound.io": upbound}
"""Rules for every kind of every group below a domain."""


def node_claim(live: Manifest) -> HealthStatus:
    """Judge a NodeClaim: given up, ready, or how far the node has come."""
    generation = at(live, "metadata", "generation")
    observed = at(live, "status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return progressing("Waiting for NodeClaim spec to be reconciled")
    by_type = {text(condition, "type"): condition for condition in reversed(conditions_of(live))}
    if by_type.get("Disrupting", {}).get("status") == "True":
        return suspended(message(by_type["Disrupting"]))
    ready = by_type.get("Ready", {})
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("status") == "False":
        return degraded(message(ready))
    for kind, detail in (
        ("Initialized", "Node initialized, waiting for Ready"),
        ("Registered", "Node registered, waiting for initialization"),
        ("Launched", "Node launched, waiting for registration"),
    ):
        if by_type.get(kind, {}).get("status") == "True":
            return progressing(detail)
    return progressing("Waiting for NodeClaim to be launched")


def scaled_object(live: Manifest) -> HealthStatus:
    """
    Judge a KEDA ScaledObject; on its fallback, or without metrics for its HorizontalPodAutoscaler, it is degraded.

    KEDA deletes the autoscaler of a paused one and keeps the last HPAActive, which does not count then.
    """
    status = _keda(live, "Creating HorizontalPodAutoscaler Object")
    scaling = condition_of(conditions_of(live), "HPAActive") or {}
    if status.health is Health.HEALTHY and scaling.get("status") == "False":
        return degraded(message(scaling))
    return status


def scaled_job(live: Manifest) -> HealthStatus:
    """Judge a KEDA ScaledJob."""
    return _keda(live, "Waiting for ScaledJob")


def _keda(live: Manifest, waiting: str) -> HealthStatus:
    conditions = conditions_of(live)
    failed = [condition for condition in conditions if _is_failure(condition)]
    if failed:
        return degraded(message(failed[-1]))
    paused = condition_of(conditions, "Paused") or {}
    ready = condition_of(conditions, "Ready") or {}
    if paused.get("status") == "True":
        return suspended(message(paused))
    return healthy(message(ready)) if ready.get("status") == "True" else progressing(waiting)


def _is_failure(sign: dict[str, Any]) -> bool:
    if (sign.get("type"), sign.get("status")) in (("Ready", "False"), ("Fallback", "True")):
        return True
    return sign.get("type") == "Ready" and sign.get("status") == "Unknown" and bool(message(sign))


def prometheus(live: Manifest) -> HealthStatus:
    """Judge a Prometheus or Alertmanager by whether its instances are available."""
    available = condition_of(list(reversed(conditions_of(live))), "Available")
    if available is None:
        return progressing("Waiting for initialization")
    if available.get("status") == "True":
        return healthy("All instances are available")
    detail = message(available) or text(available, "reason")
    return progressing(detail) if available.get("reason") == "SomePodsNotReady" else degraded(detail)


def otel_collector(live: Manifest) -> HealthStatus:
    """Judge an OpenTelemetryCollector by the replicas that its status counts as ``ready/all``."""
    mode = text(live, "spec", "mode")
    status = live.get("status")
    if status is None:
        return progressing("Waiting for OpenTelemetry Collector status")
    counted = at(status, "scale", "statusReplicas")
    if counted is None:
        if mode == "sidecar":
            return healthy("Collector is running in sidecar mode")
        return progressing("Scale status not available")
    match = re.search(r"(\d+)/(\d+)", str(counted), re.ASCII)
    if match is None:
        return progressing(f"Unable to parse replica status: {counted}")
    ready = int(match[1])
    wanted = int(match[2])
    if mode == "daemonset" and ready == wanted == 0:
        return healthy("DaemonSet has no eligible nodes (0/0)")
    if ready == 0:
        return degraded("No replicas are ready")
    return healthy("All replicas are ready") if ready == wanted else progressing("Replicas are starting up")


RULES: dict[GroupKind, Rule] = {
    GroupKind("pkg.crossplane.io", "Provider"): crossplane_package,
    GroupKind("karpenter.sh", "NodeClaim"): node_claim,
    GroupKind("keda.sh", "ScaledObject"): scaled_object,
    GroupKind("keda.sh", "ScaledJob"): scaled_job,
    GroupKind("monitoring.coreos.com", "Alertmanager"): prometheus,
    GroupKind("monitoring.coreos.com", "Prometheus"): prometheus,
    GroupKind("opentelemetry.io", "OpenTelemetryCollector"): otel_collector,
}
