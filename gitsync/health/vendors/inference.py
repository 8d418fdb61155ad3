"""Health of what serves models and schedules their work: KAITO, InferencePool, LeaderWorkerSet and Kueue."""

from __future__ import annotations

from gitsync.health.fields import condition, conditions, items, message, number, status_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def kaito(live: Manifest) -> HealthStatus:
    """
    Judge a KAITO Workspace or RAGEngine: its summary, else the first step that failed.

    Source: kaito-project/kaito, api/v1beta1/condition_types.go (WorkspaceSucceeded, RAGEngineSucceeded, ResourceReady,
    InferenceReady, JobStarted). A step that is not ready yet is False too; its reason tells a failure.
    """
    found = conditions(live)
    done = next((one for one in found if text(one, "type").endswith("Succeeded")), None)
    if done is not None and done.get("status") == "True":
        return healthy(message(done))
    failed = [one for one in found if one.get("status") == "False" and "fail" in text(one, "reason").lower()]
    if failed:
        return degraded(_said(failed[0]))
    waiting = next((one for one in found if one.get("status") != "True"), None)
    return progressing(_said(waiting) if waiting else "waiting for the first condition")


def kaito_set(live: Manifest) -> HealthStatus:
    """
    Judge a KAITO InferenceSet by its ready Workspaces.

    Source: kaito-project/kaito, api/v1beta1/inferenceset_types.go (replicas, readyReplicas).
    """
    wanted, ready = number(live, "spec", "replicas", default=1), number(live, "status", "readyReplicas")
    if wanted == 0:
        return suspended("no replicas are wanted")
    detail = f"{ready} of {wanted} Workspaces are ready"
    return healthy(detail) if ready >= wanted else progressing(detail)


def inference_pool(live: Manifest) -> HealthStatus:
    """
    Judge an InferencePool: each Gateway that uses it accepts it and finds its endpoint picker.

    Source: kubernetes-sigs/gateway-api-inference-extension, api/v1/inferencepool_types.go (status.parents[].conditions,
    types Accepted and ResolvedRefs).
    """
    found = [one for parent in items(live, "status", "parents") for one in items(parent, "conditions")]
    failed = [one for one in found if one.get("type") in ("Accepted", "ResolvedRefs") and one.get("status") == "False"]
    if failed:
        return degraded(_said(failed[0]))
    accepted = [one for one in found if one.get("type") == "Accepted"]
    if accepted and all(one.get("status") == "True" for one in accepted):
        return healthy(message(accepted[0]))
    return progressing("waiting for a Gateway")


def leader_worker_set(live: Manifest) -> HealthStatus:
    """
    Judge a LeaderWorkerSet: available, and every group ready and updated.

    Source: kubernetes-sigs/lws, api/leaderworkerset/v1/leaderworkerset_types.go (conditions Available, Progressing and
    UpdateInProgress; replicas, readyReplicas, updatedReplicas).
    """
    found, wanted = conditions(live), number(live, "spec", "replicas", default=1)
    ready, updated = number(live, "status", "readyReplicas"), number(live, "status", "updatedReplicas")
    if wanted == 0:
        return suspended("no replicas are wanted")
    update = condition(found, "UpdateInProgress") or {}
    detail = f"{ready} of {wanted} groups are ready, {updated} are updated"
    available = condition(found, "Available") or {}
    if update.get("status") != "True" and available.get("status") == "True" and min(ready, updated) >= wanted:
        return healthy(detail)
    return progressing(detail if status_of(live) else "waiting for the first group")


def kueue_queue(live: Manifest) -> HealthStatus:
    """
    Judge a ClusterQueue or LocalQueue by its condition Active; one with a stop policy is stopped on purpose.

    Source: kubernetes-sigs/kueue, apis/kueue/v1beta1/clusterqueue_types.go (condition Active, reason Stopped).
    """
    active = condition(conditions(live), "Active")
    if active is None:
        return progressing("waiting to be active")
    if active.get("status") == "True":
        return healthy(message(active))
    return suspended(_said(active)) if "Stopped" in text(active, "reason") else degraded(_said(active))


_NEVER_ADMITTED = frozenset({"ExceedsMaxQuota", "Misconfigured", "NoMatchingFlavor"})
"""Reasons of QuotaReserved (v1beta2) that only a change of the Workload or of its queue ends."""


def kueue_workload(live: Manifest) -> HealthStatus:
    """
    Judge a Workload: finished, deactivated by a user or given up by Kueue, admitted, or waiting for quota.

    Source: kubernetes-sigs/kueue, apis/kueue/v1beta1 and v1beta2, workload_types.go (conditions and their reasons,
    spec.active), pkg/workload/patching/patching.go (ReasonWithCause: ``DeactivatedDueTo...``).
    """
    found = conditions(live)
    finished, admitted = condition(found, "Finished") or {}, condition(found, "Admitted") or {}
    if finished.get("status") == "True":
        return degraded(_said(finished)) if "Fail" in text(finished, "reason") else healthy(message(finished))
    evicted, quota = condition(found, "Evicted") or {}, condition(found, "QuotaReserved") or {}
    cause = text(evicted, "reason") if evicted.get("status") == "True" else ""
    if cause.startswith("DeactivatedDueTo"):
        return degraded(_said(evicted))
    if cause == "Deactivated" or at(live, "spec", "active") is False or quota.get("reason") in ("OnHold", "Suspended"):
        return suspended(_said(evicted) or _said(quota))
    if admitted.get("status") == "True":
        return healthy(message(admitted))
    is_refused = quota.get("status") == "False" and quota.get("reason") in _NEVER_ADMITTED
    return degraded(_said(quota)) if is_refused else progressing(_said(quota) or "waiting for quota")


def _said(sign: dict[str, object]) -> str:
    return message(sign) or text(sign, "reason")


RULES: dict[GroupKind, Rule] = {
    GroupKind("kaito.sh", "Workspace"): kaito,
    GroupKind("kaito.sh", "RAGEngine"): kaito,
    GroupKind("kaito.sh", "InferenceSet"): kaito_set,
    GroupKind("inference.networking.k8s.io", "InferencePool"): inference_pool,
    GroupKind("inference.networking.x-k8s.io", "InferencePool"): inference_pool,
    GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
    GroupKind("kueue.x-k8s.io", "ClusterQueue"): kueue_queue,
    GroupKind("kueue.x-k8s.io", "LocalQueue"): kueue_queue,
    GroupKind("kueue.x-k8s.io", "Workload"): kueue_workload,
}
