"""
Health of Knative.

Source: knative/serving 1.23, pkg/apis/serving/v1 (``*_types.go``: condition types; ``*_lifecycle.go``: IsReady and
IsFailed, which need the newest generation); knative/operator, pkg/apis/operator/v1beta1 (condition types);
argoproj/argo-cd, resource_customizations/serving.knative.dev and operator.knative.dev.
"""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, is_outdated, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
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
    kind, found = text(live, "kind"), conditions(live)
    if at(live, "status", "conditions") is None:
        return progressing(f"Waiting for {kind}")
    detail = "".join(f"{index}: {text(e, 'type')} | {text(e, 'status')}\n" for index, e in enumerate(found, 1))
    if any(e.get("status") == "Unknown" or (e.get("type") in unready and e.get("status") == "False") for e in found):
        return progressing(detail)
    are_true = {text(each, "type") for each in found if each.get("status") == "True"}
    return healthy(f"{kind} is healthy.") if are_true.issuperset(good) else degraded(detail)


def knative_service(live: Manifest) -> HealthStatus:
    """Judge a Knative Service by its three conditions, once they are of the newest generation."""
    if at(live, "status", "conditions") is None or is_outdated(live):
        return progressing("Waiting for status update.")
    are_true, lines, failed = set(), [], False
    for each in conditions(live):
        if each.get("status") == "True":
            are_true.add(text(each, "type"))
        elif each.get("status") in ("False", "Unknown"):
            failed = failed or each["status"] == "False"
            since = f", since {text(each, 'reason')}." if text(each, "reason") else ""
            detail = f" {message(each)}" if message(each) else ""
            lines.append(f"{text(each, 'type')} is {each['status']}{since}{detail}\n")
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
    ready = condition(conditions(live), "Ready") or {}
    if is_outdated(live) or ready.get("status") not in ("True", "False"):
        return progressing(_said(ready) or f"Waiting for {text(live, 'kind')}")
    return healthy(message(ready)) if ready["status"] == "True" else degraded(_said(ready))


def knative_scaling(live: Manifest) -> HealthStatus:
    """
    Judge a PodAutoscaler as other kinds of Knative; scaled to zero it works as meant, and Ready is False.

    Source: knative/serving 1.23, pkg/reconciler/autoscaling/kpa/kpa.go (reason NoTraffic of Active).
    """
    active = condition(conditions(live), "Active") or {}
    if active.get("status") == "False" and active.get("reason") == "NoTraffic" and not is_outdated(live):
        return healthy(_said(active))
    return knative_object(live)


def _said(sign: dict[str, Any]) -> str:
    return message(sign) or text(sign, "reason")


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
