"""Health of what serves models: KAITO, InferencePool and LeaderWorkerSet."""

from __future__ import annotations

from gitsync.health.fields import condition, conditions, is_outdated, items, message, number, status_of, text
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
    types Accepted and ResolvedRefs; Exported is False where no export was requested) and
    apix/v1alpha2/inferencepool_types.go (status.parent; its entry ``Status/default`` means no Gateway).
    """
    parents = items(live, "status", "parents") or items(live, "status", "parent")
    gateways = [parent for parent in parents if at(parent, "parentRef", "kind") != "Status"]
    found = [one for gateway in gateways for one in items(gateway, "conditions")]
    failed = [one for one in found if one.get("type") in ("Accepted", "ResolvedRefs") and one.get("status") == "False"]
    if failed:
        return degraded(_said(failed[0]))
    accepted = [one for one in found if one.get("type") == "Accepted"]
    if accepted and all(one.get("status") == "True" for one in accepted):
        return healthy(message(accepted[0]))
    return progressing("waiting for a Gateway")


def leader_worker_set(live: Manifest) -> HealthStatus:
    """
    Judge a LeaderWorkerSet: available by its newest generation, and every group ready.

    Source: kubernetes-sigs/lws 0.10, api/leaderworkerset/v1/leaderworkerset_types.go (conditions Available, Progressing
    and UpdateInProgress; readyReplicas, updatedReplicas, observedGeneration) and
    pkg/controllers/leaderworkerset_controller.go: Available means that every group above the partition of the rollout
    is updated; the groups below keep their revision.
    """
    found, wanted = conditions(live), number(live, "spec", "replicas", default=1)
    ready, updated = number(live, "status", "readyReplicas"), number(live, "status", "updatedReplicas")
    if wanted == 0:
        return suspended("no replicas are wanted")
    update = condition(found, "UpdateInProgress") or {}
    detail = f"{ready} of {wanted} groups are ready, {updated} are updated"
    available = condition(found, "Available") or {}
    is_available = available.get("status") == "True" and update.get("status") != "True"
    if is_available and ready >= wanted and not is_outdated(live):
        return healthy(detail)
    return progressing(detail if status_of(live) else "waiting for the first group")


def _said(sign: dict[str, object]) -> str:
    return message(sign) or text(sign, "reason")


RULES: dict[GroupKind, Rule] = {
    GroupKind("kaito.sh", "Workspace"): kaito,
    GroupKind("kaito.sh", "RAGEngine"): kaito,
    GroupKind("kaito.sh", "InferenceSet"): kaito_set,
    GroupKind("inference.networking.k8s.io", "InferencePool"): inference_pool,
    GroupKind("inference.networking.x-k8s.io", "InferencePool"): inference_pool,
    GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
}
