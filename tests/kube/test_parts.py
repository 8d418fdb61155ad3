"""The kinds of parts of workloads, Agents and other platforms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitsync.kube.parts import PART_KINDS, PARTS, all_parts
from gitsync.objects.ref import GroupKind

DOCS = Path(__file__).parents[2] / "docs" / "agents-platforms.md"
PLATFORMS = (
    "agents.x-k8s.io",
    "argoproj.io",
    "ark.mckinsey.com",
    "inference.networking.k8s.io",
    "kagent.dev",
    "kaito.sh",
    "keda.sh",
    "kueue.x-k8s.io",
    "leaderworkerset.x-k8s.io",
    "disaggregatedset.x-k8s.io",
    "ray.io",
    "serving.knative.dev",
    "serving.kserve.io",
)


def kinds(group: str, kind: str) -> set[str]:
    return {part.kind for part in all_parts([GroupKind(group, kind)])}


@pytest.mark.parametrize(
    ("group", "kind", "expected"),
    [
        ("apps", "Deployment", {"ReplicaSet", "Pod"}),
        ("", "ConfigMap", set()),
        ("kagent.dev", "Agent", {"Deployment", "Service", "ReplicaSet", "Pod"}),
        ("extensions.agents.x-k8s.io", "SandboxClaim", {"Sandbox", "Pod", "Service", "PersistentVolumeClaim"}),
        ("ray.io", "RayCluster", {"Pod", "Service", "PersistentVolumeClaim", "Job", "Ingress"}),
        ("ray.io", "RayCronJob", {"RayJob", "RayCluster", "Job", "Service", "Pod"}),
        ("ray.io", "RayService", {"RayCluster", "Service", "Pod", "Gateway", "HTTPRoute"}),
        ("serving.knative.dev", "Service", {"Configuration", "Route", "Revision", "Service", "Deployment", "Ingress"}),
        ("serving.knative.dev", "Revision", {"PodAutoscaler", "ServerlessService", "HorizontalPodAutoscaler", "Pod"}),
        ("serving.knative.dev", "DomainMapping", {"Ingress"}),
        ("serving.kserve.io", "InferenceService", {"ScaledObject", "Ingress", "VirtualService", "Revision", "Pod"}),
        ("serving.kserve.io", "InferenceGraph", {"Service", "Deployment", "HorizontalPodAutoscaler", "Pod"}),
        ("serving.kserve.io", "LLMInferenceService", {"InferencePool", "LeaderWorkerSet", "StatefulSet", "Pod"}),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet", {"StatefulSet", "Service", "Pod"}),
        ("disaggregatedset.x-k8s.io", "DisaggregatedSet", {"LeaderWorkerSet", "StatefulSet", "Service", "Pod"}),
        ("kueue.x-k8s.io", "Workload", {"ProvisioningRequest", "Workload"}),
        ("keda.sh", "ScaledObject", {"HorizontalPodAutoscaler"}),
        ("keda.sh", "ScaledJob", {"Job", "Pod"}),
        ("argoproj.io", "Rollout", {"ReplicaSet", "Pod", "Ingress", "AnalysisRun", "Experiment", "Job"}),
        ("argoproj.io", "Experiment", {"ReplicaSet", "Pod", "Service", "AnalysisRun", "Job"}),
        ("ark.mckinsey.com", "Evaluation", {"Evaluation"}),
        ("gitsync.dev", "ApplicationSet", {"Application"}),
        ("gitsync.dev", "Application", set()),
        ("inference.networking.k8s.io", "InferencePool", set()),
    ],
)
def test_parts_have_parts(group: str, kind: str, expected: set[str]) -> None:
    assert kinds(group, kind) >= expected
    assert bool(kinds(group, kind)) is bool(expected)


def test_every_platform_has_rows_that_are_documented() -> None:
    assert set(PLATFORMS) <= {of.group for of in PARTS}
    assert GroupKind("apps", "Deployment") in PART_KINDS
    documented = DOCS.read_text(encoding="utf-8").partition("## Other platforms")[2].partition("\n## ")[0]
    shown = {part.kind for of, parts in PARTS.items() if of.group in PLATFORMS for part in parts}
    kinds = {of.kind for of in PARTS if of.group in PLATFORMS}
    assert [kind for kind in sorted(kinds | shown) if not re.search(rf"\b{kind}\b", documented)] == []
