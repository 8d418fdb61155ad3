"""Health of Kueue: queues, Workloads, and what admits them."""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def kueue_queue(live: Manifest) -> HealthStatus:
    """
    Judge a queue, AdmissionCheck or MultiKueueCluster by Active; a queue with a stop policy is stopped on purpose.

    Source: kubernetes-sigs/kueue 0.20, apis/kueue/v1beta2 (condition Active of the four kinds, reason Stopped).
    """
    active = condition(conditions(live), "Active")
    if active is None:
        return progressing("waiting to be active")
    if active.get("status") == "True":
        return healthy(message(active))
    return suspended(_said(active)) if "Stopped" in text(active, "reason") else degraded(_said(active))


_NEVER_ADMITTED = frozenset({"ExceedsMaxQuota", "Misconfigured", "NoMatchingFlavor"})
"""Reasons of QuotaReserved (v1beta2) that only a change of the Workload or of its queue ends."""

_NOT_DONE = frozenset({"Failed", "FailedToStart", "OutOfSync", "OwnerNotFound"})
"""Reasons of Finished without success."""


def kueue_workload(live: Manifest) -> HealthStatus:
    """
    Judge a Workload: finished, deactivated by a user or given up by Kueue, admitted, or waiting for quota or Pods.

    Source: kubernetes-sigs/kueue 0.20, apis/kueue/v1beta1 and v1beta2, workload_types.go (conditions and their reasons,
    spec.active), pkg/workload/patching/patching.go (ReasonWithCause: ``DeactivatedDueTo...``). An evicted Workload is
    Admitted until its Pods ended; PodsReady is only set where Kueue waits for Pods.
    """
    found = conditions(live)
    finished, admitted = condition(found, "Finished") or {}, condition(found, "Admitted") or {}
    if finished.get("status") == "True":
        return degraded(_said(finished)) if text(finished, "reason") in _NOT_DONE else healthy(message(finished))
    evicted, quota = condition(found, "Evicted") or {}, condition(found, "QuotaReserved") or {}
    cause = text(evicted, "reason") if evicted.get("status") == "True" else ""
    if cause.startswith("DeactivatedDueTo"):
        return degraded(_said(evicted))
    if cause == "Deactivated" or at(live, "spec", "active") is False or quota.get("reason") in ("OnHold", "Suspended"):
        return suspended(_said(evicted) or _said(quota))
    if admitted.get("status") == "True":
        return _admitted(admitted, evicted if cause else {}, condition(found, "PodsReady") or {})
    is_refused = quota.get("status") == "False" and quota.get("reason") in _NEVER_ADMITTED
    return degraded(_said(quota)) if is_refused else progressing(_said(quota) or "waiting for quota")


def _admitted(admitted: dict[str, Any], evicted: dict[str, Any], pods: dict[str, Any]) -> HealthStatus:
    waits = evicted or (pods if pods.get("status") == "False" else {})
    return progressing(_said(waits)) if waits else healthy(message(admitted))


def _said(sign: dict[str, object]) -> str:
    return message(sign) or text(sign, "reason")


RULES: dict[GroupKind, Rule] = {
    **{GroupKind("kueue.x-k8s.io", kind): kueue_queue for kind in ("ClusterQueue", "LocalQueue")},
    **{GroupKind("kueue.x-k8s.io", kind): kueue_queue for kind in ("AdmissionCheck", "MultiKueueCluster")},
    GroupKind("kueue.x-k8s.io", "Workload"): kueue_workload,
}
