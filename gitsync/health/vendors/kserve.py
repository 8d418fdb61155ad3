"""
Health of KServe.

Source: kserve/kserve 0.20, pkg/apis/serving/v1beta1/inference_service_status.go (conditions, transitionStatus),
pkg/controller/v1alpha1/inferencegraph (conditions of an InferenceGraph), pkg/apis/serving/v1alpha2
(llm_inference_service_lifecycle.go: conditions) and pkg/controller/v1alpha2/llmisvc (their reasons); argoproj/argo-cd,
resource_customizations/serving.kserve.io. An observedGeneration in a status is that of the Deployment or the Knative
Service, and is not compared with the generation of the object.
"""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def inference_service(live: Manifest) -> HealthStatus:
    """Judge a KServe InferenceService: only its model can fail, its parts become ready or wait."""
    waiting = "Waiting for InferenceService to report status..."
    if at(live, "status", "conditions") is None:
        return progressing(waiting)
    found = conditions(live)
    if (condition(found, "Stopped") or {}).get("status") == "True":
        return suspended("InferenceService is Stopped")
    lines, transition = _not_true(found), text(live, "status", "modelStatus", "transitionStatus") or "UpToDate"
    if transition != "UpToDate" and (lines or not _has_no_pods(live)):
        lines = [f"0: transitionStatus | {transition}", *lines]
    if not lines:
        return healthy("InferenceService is healthy.")
    return (progressing if transition in ("UpToDate", "InProgress") else degraded)(" | ".join(lines))


def _not_true(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for index, each in enumerate(found, 1):
        if each.get("type") != "Stopped" and each.get("status") != "True":
            parts = (text(each, "type"), text(each, "status"), text(each, "reason"), message(each))
            lines.append(f"{index}: {' | '.join(part for part in parts if part)}")
    return lines


def _has_no_pods(live: Manifest) -> bool:
    """Whether KServe found no Pod of the model (PropagateModelStatus); where all is ready, it is scaled to zero."""
    model = at(live, "status", "modelStatus")
    return text(model, "transitionStatus") == "InProgress" and text(model, "states", "targetModelState") == "Pending"


def inference_graph(live: Manifest) -> HealthStatus:
    """Judge an InferenceGraph by Ready; one that resumes has two conditions Stopped, of which the last counts."""
    found = list(reversed(conditions(live)))
    stopped, ready = condition(found, "Stopped") or {}, condition(found, "Ready") or {}
    if stopped.get("status") == "True":
        return suspended("InferenceGraph is Stopped")
    if ready.get("status") == "True":
        return healthy(message(ready))
    has_failed = ready.get("status") == "False" and ready.get("reason") != "Stopped"
    return degraded(_said(ready)) if has_failed else progressing("Waiting for InferenceGraph")


_FAILURES = frozenset(
    {"ConfigNotFound", "GatewayPreconditionNotMet", "InvalidRenderedConfig", "ProgressDeadlineExceeded"}
    | {"ScalingCRDNotFound"}
)


def llm_inference_service(live: Manifest) -> HealthStatus:
    """
    Judge an LLMInferenceService by Ready, which has the reason of a part that is not ready.

    A part that is not ready yet makes Ready False too: only an error or a failed Deployment is a failure.
    """
    ready = condition(conditions(live), "Ready") or {}
    reason = text(ready, "reason")
    if ready.get("status") == "True":
        return healthy(message(ready))
    if reason == "Stopped":
        return suspended(_said(ready))
    if reason in _FAILURES or reason.endswith("Error"):
        return degraded(_said(ready))
    return progressing(_said(ready) or "Waiting for LLMInferenceService")


def _said(sign: dict[str, Any]) -> str:
    return message(sign) or text(sign, "reason")


RULES: dict[GroupKind, Rule] = {
    GroupKind("serving.kserve.io", "InferenceGraph"): inference_graph,
    GroupKind("serving.kserve.io", "InferenceService"): inference_service,
    GroupKind("serving.kserve.io", "LLMInferenceService"): llm_inference_service,
}
