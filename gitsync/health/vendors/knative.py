"""
Health of Knative.

Source: knative/serving 1.23, pkg/apis/serving/v1 (``*_types.go``: condition types; ``*_lifecycle.go``: IsReady and
IsFailed, which need the newest generation); knative/operator, pkg/apis/operator/v1beta1 (condition types);
argoproj/argo-cd, resource_customizations/serving.knative.dev and operator.knative.dev.
"""

from __future__ import annotations

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    is_outdated,
    message,
    progressing,
    reason_of,
    text,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def knative_eventing(live: Manifest) -> HealthStatus:
    """Judge a KnativeEventing."""
    return _knative(live, ("Ready", "InstallSucceeded"), unready=("Ready",))


def knative_serving(live: Manifest) -> HealthStatus:
    """Judge a KnativeServing."""
    good = ("Ready", "InstallSucceeded", "DependenciesInstalled", "DeploymentsAvailable")
    return _knative(live, good, unready=("Ready", "DeploymentsAvailable"))


def _knative(live: Manifest, good: tuple[str, ...], unready: tuple[str, ...]) -> HealthStatus:
    """Return Healthy when all good conditions are True, Progressing while one is unknown or a decisive one is False."""
    kind = text(live, "kind")
    conditions = conditions_of(live)
    if at(live, "status", "conditions") is None:
        return progressing(f"Waiting for {kind}")
    detail = "".join(
        f"{index}: {text(condition, 'type')} | {text(condition, 'status')}\n"
        for index, condition in enumerate(conditions, 1)
    )
    if any(
        condition.get("status") == "Unknown"
        or (condition.get("type") in unready and condition.get("status") == "False")
        for condition in conditions
    ):
        return progressing(detail)
    are_true = {text(condition, "type") for condition in conditions if condition.get("status") == "True"}
    return healthy(f"{kind} is healthy.") if are_true.issuperset(good) else degraded(detail)


def knative_service(live: Manifest) -> HealthStatus:
    """Judge a Knative Service by its three conditions, once they are of the newest generation."""
    if at(live, "status", "conditions") is None or is_outdated(live):
        return progressing("Waiting for status update.")
    are_true = set()
    lines = []
    failed = False
    for condition in conditions_of(live):
        if condition.get("status") == "True":
            are_true.add(text(condition, "type"))
        elif condition.get("status") in ("False", "Unknown"):
            failed = failed or condition["status"] == "False"
            since = f", since {text(condition, 'reason')}." if text(condition, "reason") else ""
            detail = f" {message(condition)}" if message(condition) else ""
            lines.append(f"{text(condition, 'type')} is {condition['status']}{since}{detail}\n")
    if failed:
        return degraded("".join(lines))
    if not lines and are_true.issuperset({"ConfigurationsReady", "RoutesReady", "Ready"}):
        return healthy("Knative Service is healthy.")
    return progressing("".join(lines))


def knative_object(live: Manifest) -> HealthStatus:
    """
    Judge any other kind of Knative by Ready, once it is of the newest generation: Unknown means in progress.

    A Revision that is scaled to zero is Ready: its condition Active does not count.
    """
    ready = condition_of(conditions_of(live), "Ready") or {}
    if is_outdated(live) or ready.get("status") not in ("True", "False"):
        return progressing(reason_of(ready) or f"Waiting for {text(live, 'kind')}")
    return healthy(message(ready)) if ready["status"] == "True" else degraded(reason_of(ready))


def knative_scaling(live: Manifest) -> HealthStatus:
    """
    Judge a PodAutoscaler as other kinds of Knative; scaled to zero it works as meant, and Ready is False.

    Source: knative/serving 1.23, pkg/reconciler/autoscaling/kpa/kpa.go (reason NoTraffic of Active).
    """
    active = condition_of(conditions_of(live), "Active") or {}
    if active.get("status") == "False" and active.get("reason") == "NoTraffic" and not is_outdated(live):
        return healthy(reason_of(active))
    return knative_object(live)


_KNATIVE = "serving.knative.dev"

RULES: dict[GroupKind, Rule] = {
    GroupKind("operator.knative.dev", "KnativeEventing"): knative_eventing,
    GroupKind("operator.knative.dev", "KnativeServing"): knative_serving,
    GroupKind(_KNATIVE, "Service"): knative_service,
    **{GroupKind(_KNATIVE, kind): knative_object for kind in ("Configuration", "DomainMapping", "Revision", "Route")},
    GroupKind("networking.internal.knative.dev", "Ingress"): knative_object,
    GroupKind("networking.internal.knative.dev", "ServerlessService"): knative_object,
    GroupKind("autoscaling.internal.knative.dev", "PodAutoscaler"): knative_scaling,
}
