"""Parts: kinds that a controller creates for an object of another kind, and that run something or lead to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from gitsync.objects.ref import GroupKind


class Part(NamedTuple):
    """A kind of parts, with the version that is read."""

    group: str
    version: str
    kind: str

    @property
    def of(self) -> GroupKind:
        """Its group and kind."""
        return GroupKind(self.group, self.kind)


_POD = Part("", "v1", "Pod")
_SERVICE = Part("", "v1", "Service")
_CLAIM = Part("", "v1", "PersistentVolumeClaim")
_DEPLOYMENT = Part("apps", "v1", "Deployment")
_STATEFUL_SET = Part("apps", "v1", "StatefulSet")
_REPLICA_SET = Part("apps", "v1", "ReplicaSet")
_JOB = Part("batch", "v1", "Job")
_HPA = Part("autoscaling", "v2", "HorizontalPodAutoscaler")
_ROUTE = Part("gateway.networking.k8s.io", "v1", "HTTPRoute")
_INGRESS = Part("networking.k8s.io", "v1", "Ingress")
_SCALED_OBJECT = Part("keda.sh", "v1alpha1", "ScaledObject")
_GROUPS = Part("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet")
_AGENTS = ("agents.gitsync.dev", "v1alpha1")
_ARK = ("ark.mckinsey.com", "v1alpha1")
_KAITO = ("kaito.sh", "v1beta1")
_SANDBOXES = ("agents.x-k8s.io", "v1beta1")
_RAY = ("ray.io", "v1")
_KNATIVE = ("serving.knative.dev", "v1")
_KNATIVE_SERVICE = Part(*_KNATIVE, "Service")
_KNATIVE_INGRESS = Part("networking.internal.knative.dev", "v1alpha1", "Ingress")
_KNATIVE_SCALING = Part("autoscaling.internal.knative.dev", "v1alpha1", "PodAutoscaler")
_KNATIVE_ENDPOINTS = Part("networking.internal.knative.dev", "v1alpha1", "ServerlessService")
_ARGO = ("argoproj.io", "v1alpha1")
_ANALYSIS = Part(*_ARGO, "AnalysisRun")

WORKLOADS: Final[dict[GroupKind, tuple[Part, ...]]] = {
    GroupKind("apps", "Deployment"): (_REPLICA_SET, _POD),
    GroupKind("apps", "StatefulSet"): (_POD,),
    GroupKind("apps", "DaemonSet"): (_POD,),
    GroupKind("batch", "Job"): (_POD,),
}
"""Workloads of Kubernetes and their parts, without which their health has no reason."""

_PLATFORMS: Final[dict[GroupKind, tuple[Part, ...]]] = {
    GroupKind("agents.gitsync.dev", "Agent"): (_DEPLOYMENT, _STATEFUL_SET, _SERVICE, _JOB, _HPA, _CLAIM, _ROUTE),
    GroupKind("agents.gitsync.dev", "MultiAgentSystem"): (Part(*_AGENTS, "Agent"), _SERVICE),
    # kagent-dev/kagent, go/core/internal/controller/translator/agent/manifest_builder.go; kagent-dev/kmcp
    GroupKind("kagent.dev", "Agent"): (_DEPLOYMENT, _SERVICE),
    GroupKind("kagent.dev", "MCPServer"): (_DEPLOYMENT, _SERVICE),
    # mckinsey/agents-at-scale-ark, ark/internal/controller/mcpserver_controller.go and evaluation_controller.go
    GroupKind("ark.mckinsey.com", "MCPServer"): (Part(*_ARK, "Tool"),),
    GroupKind("ark.mckinsey.com", "Evaluation"): (Part(*_ARK, "Evaluation"),),
    # kubernetes-sigs/agent-sandbox, controllers/sandbox_controller.go and extensions/controllers
    GroupKind("agents.x-k8s.io", "Sandbox"): (_POD, _SERVICE, _CLAIM),
    GroupKind("extensions.agents.x-k8s.io", "SandboxClaim"): (Part(*_SANDBOXES, "Sandbox"),),
    GroupKind("extensions.agents.x-k8s.io", "SandboxWarmPool"): (Part(*_SANDBOXES, "Sandbox"), _POD),
    # kaito-project/kaito, pkg/workspace/controllers, pkg/ragengine/controllers, pkg/inferenceset
    GroupKind("kaito.sh", "Workspace"): (_DEPLOYMENT, _STATEFUL_SET, _SERVICE, _JOB),
    GroupKind("kaito.sh", "RAGEngine"): (_DEPLOYMENT, _SERVICE),
    GroupKind("kaito.sh", "InferenceSet"): (Part(*_KAITO, "Workspace"),),
    # kserve/kserve 0.20, pkg/controller: v1beta1/inferenceservice, v1alpha1/inferencegraph and v1alpha2/llmisvc
    GroupKind("serving.kserve.io", "InferenceService"): (
        *(_KNATIVE_SERVICE, _DEPLOYMENT, _SERVICE, _HPA, _SCALED_OBJECT, _ROUTE, _INGRESS),
        Part("networking.istio.io", "v1beta1", "VirtualService"),
        Part("opentelemetry.io", "v1beta1", "OpenTelemetryCollector"),
    ),
    GroupKind("serving.kserve.io", "InferenceGraph"): (_KNATIVE_SERVICE, _DEPLOYMENT, _SERVICE, _HPA),
    GroupKind("serving.kserve.io", "LLMInferenceService"): (
        *(_DEPLOYMENT, _GROUPS, _SERVICE, _HPA, _SCALED_OBJECT, _ROUTE, _INGRESS),
        Part("inference.networking.k8s.io", "v1", "InferencePool"),
        Part("inference.networking.x-k8s.io", "v1alpha2", "InferencePool"),
    ),
    # kubernetes-sigs/gateway-api-inference-extension, api/v1: an InferencePool selects Pods and owns none
    GroupKind("inference.networking.k8s.io", "InferencePool"): (),
    # kubernetes-sigs/lws 0.10, pkg/controllers: the leaders' StatefulSet; each leader owns that of its workers
    GroupKind("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (_STATEFUL_SET, _POD, _SERVICE),
    GroupKind("disaggregatedset.x-k8s.io", "DisaggregatedSet"): (_GROUPS, _SERVICE),
    # kubernetes-sigs/kueue 0.20, pkg/controller: admissionchecks/provisioning and concurrentadmission (variants)
    GroupKind("kueue.x-k8s.io", "Workload"): (
        Part("autoscaling.x-k8s.io", "v1", "ProvisioningRequest"),
        Part("kueue.x-k8s.io", "v1beta2", "Workload"),
    ),
    GroupKind("kueue.x-k8s.io", "ClusterQueue"): (),
    # ray-project/kuberay 1.7, ray-operator/controllers/ray: a RayCluster's Job cleans up Redis, its claim is of the GCS
    GroupKind("ray.io", "RayCluster"): (_POD, _SERVICE, _CLAIM, _JOB, _INGRESS),
    GroupKind("ray.io", "RayJob"): (Part(*_RAY, "RayCluster"), _JOB, _SERVICE),
    GroupKind("ray.io", "RayCronJob"): (Part(*_RAY, "RayJob"),),
    GroupKind("ray.io", "RayService"): (
        *(Part(*_RAY, "RayCluster"), _SERVICE, _ROUTE),
        Part("gateway.networking.k8s.io", "v1", "Gateway"),
    ),
    # kedacore/keda 2.20, controllers/keda/hpa.go and pkg/scaling/executor/scale_jobs.go
    GroupKind("keda.sh", "ScaledObject"): (_HPA,),
    GroupKind("keda.sh", "ScaledJob"): (_JOB,),
    # knative/serving 1.23, pkg/reconciler: service, configuration, revision, route, domainmapping, autoscaling and
    # serverlessservice
    GroupKind("serving.knative.dev", "Service"): (Part(*_KNATIVE, "Configuration"), Part(*_KNATIVE, "Route")),
    GroupKind("serving.knative.dev", "Configuration"): (Part(*_KNATIVE, "Revision"),),
    GroupKind("serving.knative.dev", "Revision"): (_DEPLOYMENT, _KNATIVE_SCALING),
    GroupKind("serving.knative.dev", "Route"): (_SERVICE, _KNATIVE_INGRESS),
    GroupKind("serving.knative.dev", "DomainMapping"): (_KNATIVE_INGRESS,),
    _KNATIVE_SCALING.of: (_KNATIVE_ENDPOINTS, _HPA),
    _KNATIVE_ENDPOINTS.of: (_SERVICE,),
    # argoproj/argo-rollouts 1.10, rollout (nginx: the Ingress of the canary), experiments and metricproviders/job
    GroupKind("argoproj.io", "Rollout"): (_REPLICA_SET, _POD, _INGRESS, _ANALYSIS, Part(*_ARGO, "Experiment")),
    GroupKind("argoproj.io", "Experiment"): (_REPLICA_SET, _POD, _SERVICE, _ANALYSIS),
    _ANALYSIS.of: (_JOB,),
}
"""Agents and the platforms that run agents and models, each with the source of its controllers."""

_OWN: Final = {GroupKind("gitsync.dev", "ApplicationSet"): (Part("gitsync.dev", "v1alpha1", "Application"),)}
"""Kinds of gitsync that generate others; what an Application declares is not its part."""

PARTS: Final = {**WORKLOADS, **_PLATFORMS, **_OWN}

PART_KINDS: Final = frozenset(part.of for parts in PARTS.values() for part in parts)
"""All kinds of parts."""


def all_parts(kinds: Iterable[GroupKind]) -> frozenset[Part]:
    """Return the parts of these kinds, and the parts of parts."""
    parts: set[Part] = set()
    pending = [part for kind in kinds for part in PARTS.get(kind, ())]
    while pending:
        part = pending.pop()
        if part not in parts:
            parts.add(part)
            pending += PARTS.get(part.of, ())
    return frozenset(parts)
