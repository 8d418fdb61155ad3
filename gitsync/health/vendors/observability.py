"""Health of the Prometheus and OpenTelemetry operators."""

from __future__ import annotations

import re

from gitsync.health.fields import condition, conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def prometheus(live: Manifest) -> HealthStatus:
    """Judge a Prometheus or Alertmanager by whether its instances are available."""
    available = condition(list(reversed(conditions(live))), "Available")
    if available is None:
        return progressing("Waiting for initialization")
    if available.get("status") == "True":
        return healthy("All instances are available")
    detail = message(available) or text(available, "reason")
    return progressing(detail) if available.get("reason") == "SomePodsNotReady" else degraded(detail)


def otel_collector(live: Manifest) -> HealthStatus:
    """Judge an OpenTelemetryCollector by the replicas that its status counts as ``ready/all``."""
    mode, status = text(live, "spec", "mode"), live.get("status")
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
    ready, wanted = int(match[1]), int(match[2])
    if mode == "daemonset" and ready == wanted == 0:
        return healthy("DaemonSet has no eligible nodes (0/0)")
    if ready == 0:
        return degraded("No replicas are ready")
    return healthy("All replicas are ready") if ready == wanted else progressing("Replicas are starting up")


RULES: dict[GroupKind, Rule] = {
    GroupKind("monitoring.coreos.com", "Alertmanager"): prometheus,
    GroupKind("monitoring.coreos.com", "Prometheus"): prometheus,
    GroupKind("opentelemetry.io", "OpenTelemetryCollector"): otel_collector,
}
