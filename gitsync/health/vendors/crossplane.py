"""Health of Crossplane and Upbound: packages, and any kind of their providers."""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import conditions, message, status_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def crossplane_package(live: Manifest) -> HealthStatus:
    """Judge a Crossplane package by whether it is installed and healthy."""
    if at(live, "status", "conditions") is None:
        return progressing("Waiting for provider to be installed")
    found = {text(each, "type"): each for each in conditions(live)}
    signs: list[dict[str, Any]] = [found.get("Installed", {}), found.get("Healthy", {})]
    detail = " ".join(text(each, "reason") for each in signs)
    return healthy(detail) if all(each.get("status") == "True" for each in signs) else degraded(detail)


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
    found = conditions(live)
    for each in found:
        if each.get("type") in ("LastAsyncOperation", "Synced") and each.get("status") == "False":
            return degraded(message(each))
    if any(each.get("type") in ready and each.get("status") == "True" for each in found):
        return healthy(_UP_TO_DATE)
    return progressing("Provisioning ...")


RULES: dict[GroupKind, Rule] = {
    GroupKind("pkg.crossplane.io", "Provider"): crossplane_package,
}
GROUP_RULES: dict[str, Rule] = {"crossplane.io": crossplane, "upbound.io": upbound}
"""Rules for every kind of every group below a domain."""
