"""
Health of what serves models: KServe, KAITO, InferencePool and LeaderWorkerSet.

Source for KServe: kserve/kserve 0.20, pkg/apis/serving/v1beta1/inference_service_status.go (conditions,
transitionStatus), pkg/controller/v1alpha1/inferencegraph (conditions of an InferenceGraph), pkg/apis/serving/v1alpha2
(llm_inference_service_lifecycle.go: conditions) and pkg/controller/v1alpha2/llmisvc (their reasons); argoproj/argo-cd,
resource_customizations/serving.kserve.io. An observedGeneration in a status is that of the Deployment or the Knative
Service, and is not compared with the generation of the object.
"""

from __future__ import annotations

from typing import Any

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    is_outdated,
    items,
    message,
    number,
    progressing,
    reason_of,
    status_of,
    suspended,
    text,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def kaito(live: Manifest) -> HealthStatus:
    """
    Judge a KAITO Workspace or RAGEngine: its summary, else the first step that failed.

    Source: kaito-project/kaito, api/v1beta1/condition_types.go (WorkspaceSucceeded, RAGEngineSucceeded, ResourceReady,
    InferenceReady, JobStarted). A step that is not ready yet is False too; its reason tells a failure.
    """
    conditions = conditions_of(live)
    done = next((condition for condition in conditions if text(condition, "type").endswith("Succeeded")), None)
    if done is not None and done.get("status") == "True":
        return healthy(message(done))
    failed = [
        condition
        for condition in conditions
        if condition.get("status") == "False" and "fail" in text(condition, "reason").lower()
    ]
    if failed:
        return degraded(reason_of(failed[0]))
    waiting = next((condition for condition in conditions if condition.get("status") != "True"), None)
    return progressing(reason_of(waiting) if waiting else "waiting for the first condition")


def kaito_set(live: Manifest) -> HealthStatus:
    """
    Judge a KAITO InferenceSet by its ready Workspaces.

    Source: kaito-project/kaito, api/v1beta1/inferenceset_types.go (replicas, readyReplicas).
    """
    wanted = number(live, "spec", "replicas", default=1)
    ready = number(live, "status", "readyReplicas")
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
    conditions = [condition for gateway in gateways for condition in items(gateway, "conditions")]
    failed = [
        condition
        for condition in conditions
        if condition.get("type") in ("Accepted", "ResolvedRefs") and condition.get("status") == "False"
    ]
    if failed:
        return degraded(reason_of(failed[0]))
    accepted = [condition for condition in conditions if condition.get("type") == "Accepted"]
    if accepted and all(condition.get("status") == "True" for condition in accepted):
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
    conditions = conditions_of(live)
    wanted = number(live, "spec", "replicas", default=1)
    ready = number(live, "status", "readyReplicas")
    updated = number(live, "status", "updatedReplicas")
    if wanted == 0:
        return suspended("no replicas are wanted")
    update = condition_of(conditions, "UpdateInProgress") or {}
    detail = f"{ready} of {wanted} groups are ready, {updated} are updated"
    available = condition_of(conditions, "Available") or {}
    is_available = available.get("status") == "True" and update.get("status") != "True"
    if is_available and ready >= wanted and not is_outdated(live):
        return healthy(detail)
    return progressing(detail if status_of(live) else "waiting for the first group")


def inference_service(live: Manifest) -> HealthStatus:
    """Judge a KServe InferenceService: only its model can fail, its parts become ready or wait."""
    waiting = "Waiting for InferenceService to report status..."
    if at(live, "status", "conditions") is None:
        return progressing(waiting)
    conditions = conditions_of(live)
    if (condition_of(conditions, "Stopped") or {}).get("status") == "True":
        return suspended("InferenceService is Stopped")
    lines = _not_true(conditions)
    transition = text(live, "status", "modelStatus", "transitionStatus") or "UpToDate"
    if transition != "UpToDate" and (lines or not _has_no_pods(live)):
        lines = [f"0: transitionStatus | {transition}", *lines]
    if not lines:
        return healthy("InferenceService is healthy.")
    return (progressing if transition in ("UpToDate", "InProgress") else degraded)(" | ".join(lines))


def _not_true(conditions: list[dict[str, Any]]) -> list[str]:
    lines = []
    for index, condition in enumerate(conditions, 1):
        if condition.get("type") != "Stopped" and condition.get("status") != "True":
            parts = (text(condition, "type"), text(condition, "status"), text(condition, "reason"), message(condition))
            lines.append(f"{index}: {' | '.join(part for part in parts if part)}")
    return lines


def _has_no_pods(live: Manifest) -> bool:
    """Whether KServe found no Pod of the model (PropagateModelStatus); where all is ready, it is scaled to zero."""
    model = at(live, "status", "modelStatus")
    return text(model, "transitionStatus") == "InProgress" and text(model, "states", "targetModelState") == "Pending"


def inference_graph(live: Manifest) -> HealthStatus:
    """Judge an InferenceGraph by Ready; one that resumes has two conditions Stopped, of which the last counts."""
    conditions = list(reversed(conditions_of(live)))
    stopped = condition_of(conditions, "Stopped") or {}
    ready = condition_of(conditions, "Ready") or {}
    if stopped.get("status") == "True":
        return suspended("InferenceGraph is Stopped")
    if ready.get("status") == "True":
        return healthy(message(ready))
    has_failed = ready.get("status") == "False" and ready.get("reason") != "Stopped"
    return degraded(reason_of(ready)) if has_failed else progressing("Waiting for InferenceGraph")


_FAILURES = frozenset(
    {"ConfigNotFound", "GatewayPreconditionNotMet", "InvalidRenderedConfig", "ProgressDeadlineExceeded"}
    | {"ScalingCRDNotFound"}
)


def llm_inference_service(live: Manifest) -> HealthStatus:
    """
    Judge an LLMInferenceService by Ready, which has the reason of a part that is not ready.

    A part that is not ready yet makes Ready False too: only an error or a failed Deployment is a failure.
    """
    ready = condition_of(conditions_of(live), "Ready") or {}
    reason = text(ready, "reason")
    if ready.get("status") == "True":
        return healthy(message(ready))
    if reason == "Stopped":
        return suspended(reason_of(ready))
    if reason in _FAILURES or reason.endswith("Error"):
        return degraded(reason_of(ready))
    return progressing(reason_of(ready) or "Waiting for LLMInferenceService")


RULES: dict[GroupKind, Rule] = {
    GroupKind("kaito.sh", "Workspace"): kaito,
    GroupKind("kaito.sh", "RAGEngine"): kaito,
    GroupKind("kaito.sh", "InferenceSet"): kaito_set,
    GroupKind("inference.networking.k8s.io", "InferencePool"): inference_pool,
    GroupKind("inference.networking.x-k8s.io", "InferencePool"): inference_pool,
    GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): leader_worker_set,
    GroupKind("serving.kserve.io", "InferenceGraph"): inference_graph,
    GroupKind("serving.kserve.io", "InferenceService"): inference_service,
    GroupKind("serving.kserve.io", "LLMInferenceService"): llm_inference_service,
}
