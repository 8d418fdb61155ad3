"""Health of the External Secrets operator."""

from __future__ import annotations

from gitsync.health.fields import conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind


def external_secret(live: Manifest) -> HealthStatus:
    """Judge an ExternalSecret by Ready; one refreshed on change waits until Ready is newer than the refresh."""
    for each in conditions(live):
        if each.get("type") != "Ready":
            continue
        refreshed = text(live, "status", "refreshTime")
        if text(live, "spec", "refreshPolicy") == "OnChange" and text(each, "lastTransitionTime") < refreshed:
            continue
        if each.get("status") in ("True", "False"):
            return healthy(message(each)) if each["status"] == "True" else degraded(message(each))
    return progressing("Waiting for ExternalSecret")


def cluster_external_secret(live: Manifest) -> HealthStatus:
    """Judge a ClusterExternalSecret by its newest condition, the last of the list."""
    last = (conditions(live) or [{}])[-1]
    if last.get("status") == "True" and last.get("type") == "Ready":
        return healthy(message(last))
    if last.get("status") == "True" and last.get("type") in ("PartiallyReady", "NotReady"):
        return degraded(message(last))
    return progressing("Waiting for ClusterExternalSecret")


RULES: dict[GroupKind, Rule] = {
    GroupKind("external-secrets.io", "ExternalSecret"): external_secret,
    GroupKind("external-secrets.io", "ClusterExternalSecret"): cluster_external_secret,
}
