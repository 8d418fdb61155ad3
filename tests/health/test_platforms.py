"""Health of agents and of the platforms that run them: at least five cases each."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.health.assess import assess
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from tests.health.factories import live, said

H, S, P, D, U = Health.HEALTHY, Health.SUSPENDED, Health.PROGRESSING, Health.DEGRADED, Health.UNKNOWN
Case = tuple[Manifest, Health, str]

AGENT = "agents.gitsync.dev/v1alpha1/Agent"
SYSTEM = "agents.gitsync.dev/v1alpha1/MultiAgentSystem"
KAGENT, ARK = "kagent.dev/v1alpha2", "ark.mckinsey.com/v1alpha1"
SANDBOX, POOL = "agents.x-k8s.io/v1alpha1/Sandbox", "extensions.agents.x-k8s.io/v1alpha1/SandboxWarmPool"
BETA = "agents.x-k8s.io/v1beta1/Sandbox"
CLAIM = "extensions.agents.x-k8s.io/v1alpha1/SandboxClaim"
KAITO, RAG = "kaito.sh/v1beta1/Workspace", "kaito.sh/v1beta1/RAGEngine"
SET = "kaito.sh/v1beta1/InferenceSet"
ALPHA_POOL = "inference.networking.x-k8s.io/v1alpha2/InferencePool"
NO_GATEWAY = {"parentRef": {"kind": "Status", "name": "default"}, **said("Accepted=Unknown:Pending:waits")}
INFERENCE_POOL = "inference.networking.k8s.io/v1/InferencePool"
LWS = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
KUEUE = "kueue.x-k8s.io/v1beta2"
QUEUE, WORKLOAD = "kueue.x-k8s.io/v1beta1/ClusterQueue", "kueue.x-k8s.io/v1beta1/Workload"
RAY = "ray.io/v1"
GRAPH, LLM = "serving.kserve.io/v1alpha1/InferenceGraph", "serving.kserve.io/v1alpha2/LLMInferenceService"
KSERVE, KNATIVE = "serving.kserve.io/v1beta1/InferenceService", "serving.knative.dev/v1/Service"
SERVING, SCALING = "serving.knative.dev/v1", "autoscaling.internal.knative.dev/v1alpha1/PodAutoscaler"
KNATIVE_INGRESS = "networking.internal.knative.dev/v1alpha1/Ingress"
KNATIVE_READY = said("ConfigurationsReady=True", "RoutesReady=True", "Ready=True")
SCALED_JOB = "keda.sh/v1alpha1/ScaledJob"
SCALED, ROLLOUT = "keda.sh/v1alpha1/ScaledObject", "argoproj.io/v1alpha1/Rollout"
EXPERIMENT, WORKLOAD_GENERATION = "argoproj.io/v1alpha1/Experiment", "rollout.argoproj.io/workload-generation"
PAUSED = {"controllerPause": True, "pauseConditions": [{"reason": "CanaryPauseStep"}]}
REFERENCE, SEEN = {"workloadRef": {"name": "web"}}, {"workloadObservedGeneration": "1"}
CANARY = {"replicas": 1, "strategy": {"canary": {}}}
ROLLED = {"observedGeneration": "1", "currentPodHash": "a", "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}


def ours(*conditions: str, kind: str = AGENT, observed: int = 1) -> Manifest:
    return live(kind, {}, said(*conditions, observedGeneration=observed), generation=1)


def parent(*conditions: str) -> dict[str, Any]:
    return {"parents": [{"parentRef": {"name": "gateway"}, **said(*conditions)}]}


def groups(ready: int, updated: int, *conditions: str) -> dict[str, Any]:
    return said(*conditions, readyReplicas=ready, updatedReplicas=updated)


def workers(ready: int, desired: int) -> dict[str, Any]:
    signs = ("HeadPodReady=True", "RayClusterProvisioned=True:AllPodRunningAndReadyFirstTime:all ready")
    return {**said(*signs), "state": "ready", "readyWorkerReplicas": ready, "desiredWorkerReplicas": desired}


def model(transition: str, target: str) -> dict[str, Any]:
    return {"transitionStatus": transition, "states": {"activeModelState": "Loaded", "targetModelState": target}}


def serving(status: str, message: str = "") -> dict[str, Any]:
    applications = {"app": {"status": status, "message": message}}
    return {"serviceStatus": "Running", "activeServiceStatus": {"applicationStatuses": applications}}


CASES: dict[str, list[Case]] = {
    "gitsync": [
        (live(AGENT, {}, generation=1), P, "waiting for the operator"),
        (ours("Ready=True", observed=0), P, "waiting for the operator"),
        (ours("Ready=True", "ContractDrift=True:Dangerous:tools.a: new"), D, "contract drift: tools.a: new"),
        (ours("Ready=True", "ContractDrift=True:Moderate:words"), H, ""),
        (ours("Ready=True:A:2 of 2", "BudgetExceeded=False:NearLimit:85 %"), H, "near its budget; 2 of 2"),
        (ours("Ready=True:A:2 of 2", "BudgetExceeded=True:Exceeded:120 %"), H, "over its budget; 2 of 2"),
        (ours("Ready=True", "BehaviouralDrift=True:CasesFailed:1 of 2"), D, "its cases fail: 1 of 2"),
        (ours("Reconciling=True:Progressing:1 of 2 replicas", "Ready=False"), P, "1 of 2"),
        (ours("Stalled=True:RolledBack:a-1 failed", "Ready=True"), D, "a-1 failed"),
        (ours("Ready=False:Suspended:spec.suspend is true"), S, "suspend"),
        (ours("Ready=True:AllReplicasReady:2 of 2"), H, "2 of 2"),
        (ours("Ready=False:ReplicasNotReady:0 of 2"), D, "0 of 2"),
        (ours("Stalled=True:MemberFailed:b: no", kind=SYSTEM), D, "b: no"),
        (ours("Ready=True:AllMembersReady:3 of 3", kind=SYSTEM), H, "3 of 3"),
    ],
    "kagent": [
        (live(f"{KAGENT}/Agent", {}), P, "waiting"),
        (live(f"{KAGENT}/Agent", {}, said("Accepted=False:ModelConfigNotFound:no model")), D, "no model"),
        (live(f"{KAGENT}/Agent", {}, said("Accepted=True", "Ready=False:DeploymentNotReady:0 of 1")), P, "0 of 1"),
        (live(f"{KAGENT}/Agent", {}, said("Accepted=True", "Ready=True:DeploymentReady:ready")), H, "ready"),
        (live(f"{KAGENT}/ModelConfig", {}, said("Accepted=True:Reconciled:found")), H, "found"),
        (live(f"{KAGENT}/RemoteMCPServer", {}, said("Accepted=False:ConnectionFailed:refused")), D, "refused"),
        (live(f"{KAGENT}/ModelConfig", {}), P, "accepted"),
    ],
    "ARK": [
        (live(f"{ARK}/Agent", {}), U, "nothing"),
        (live(f"{ARK}/Query", {}, {"phase": "running"}), P, "running"),
        (live(f"{ARK}/Query", {}, {"phase": "done"}), H, "done"),
        (live(f"{ARK}/Query", {}, {"phase": "error", "message": "no model"}), D, "no model"),
        (live(f"{ARK}/Query", {}, {"phase": "canceled"}), S, "canceled"),
        (live(f"{ARK}/Model", {}, said("ModelAvailable=True:Available:probed")), H, "probed"),
        (live(f"{ARK}/Model", {}, said("ModelAvailable=Unknown::probing")), P, "probing"),
        (live(f"{ARK}/Agent", {}, said("Available=False:ModelNotFound:no model")), D, "no model"),
    ],
    "agent-sandbox": [
        (live(SANDBOX, {}), P, "waiting"),
        (live(SANDBOX, {}, said("Ready=False:DependenciesNotReady:Pod is Pending")), P, "Pending"),
        (live(SANDBOX, {}, said("Ready=True:DependenciesReady:Pod is Ready")), H, "Ready"),
        (live(SANDBOX, {}, said("Ready=False:ReconcilerError:no image")), D, "no image"),
        (live(SANDBOX, {}, said("Ready=False:SandboxExpired:expired")), S, "expired"),
        (live(SANDBOX, {"replicas": 0}, said("Ready=False:DependenciesNotReady:stopped")), S, "stopped"),
        (live(BETA, {"operatingMode": "Suspended"}, said("Ready=False:SandboxSuspended:by a user")), S, "by a user"),
        (live(BETA, {}, said("Ready=True", "Finished=True:PodSucceeded:ended")), H, "ended"),
        (live(BETA, {}, said("Ready=False", "Finished=True:PodFailed:exit 1")), D, "exit 1"),
        (live(BETA, {}, said("Ready=False:MultiplePods:2 Pods")), D, "2 Pods"),
        (live(BETA, {}, said("Ready=False:PodFailed:Pod failed")), D, "Pod failed"),
        (live(BETA, {}, said("Ready=False:InvalidConfiguration:no container")), D, "no container"),
        (live(CLAIM, {}, said("Ready=False:TemplateNotFound:no template")), D, "no template"),
        (live(CLAIM, {}, said("Ready=False:WarmPoolNotFound:no pool")), D, "no pool"),
        (live(CLAIM, {}, said("Ready=False:InvalidMetadata:a label")), D, "a label"),
        (live(CLAIM, {}, said("Ready=False:EnvVarsInjectionRejected:not allowed")), D, "not allowed"),
        (live(CLAIM, {}, said("Ready=False:VolumeClaimTemplatesError:not allowed")), D, "not allowed"),
        (live(CLAIM, {}, said("Ready=False:AdoptionConflict:next pass")), P, "next pass"),
        (live(CLAIM, {}, said("Ready=False:ClaimExpired:expired")), S, "expired"),
        (live(POOL, {"replicas": 2}), P, "waiting"),
        (live(POOL, {"replicas": 2}, {"replicas": 2, "readyReplicas": 1}), P, "1 of 2"),
        (live(POOL, {"replicas": 2}, {"replicas": 2, "readyReplicas": 2}), H, "2 of 2"),
    ],
    "KAITO": [
        (live(KAITO, {}), P, "first condition"),
        (live(KAITO, {}, said("ResourceReady=False:Pending:node is created")), P, "node is created"),
        (live(KAITO, {}, said("ResourceReady=False:workspaceResourceStatusFailed:no quota")), D, "no quota"),
        (live(KAITO, {}, said("ResourceReady=True", "InferenceReady=Unknown::starting")), P, "starting"),
        (live(KAITO, {}, said("InferenceReady=True", "WorkspaceSucceeded=True::serves")), H, "serves"),
        (live(SET, {"replicas": 2}, {"replicas": 2, "readyReplicas": 1}), P, "1 of 2"),
        (live(SET, {"replicas": 2}, {"replicas": 2, "readyReplicas": 2}), H, "2 of 2"),
        (live(SET, {"replicas": 0}), S, "no replicas"),
        (live(RAG, {}, said("RAGEngineSucceeded=True::answers")), H, "answers"),
        (live(RAG, {}, said("ServiceReady=False:serviceFailed:crashes")), D, "crashes"),
    ],
    "InferencePool": [
        (live(INFERENCE_POOL, {}), P, "Gateway"),
        (live(INFERENCE_POOL, {}, parent()), P, "Gateway"),
        (live(INFERENCE_POOL, {}, parent("Accepted=True::used", "ResolvedRefs=True")), H, "used"),
        (live(INFERENCE_POOL, {}, parent("Accepted=False:NotSupportedByParent:no")), D, "no"),
        (live(INFERENCE_POOL, {}, parent("Accepted=True", "ResolvedRefs=False:InvalidExtensionRef:gone")), D, "gone"),
        (live(INFERENCE_POOL, {}, parent("Accepted=Unknown:Pending:waits")), P, "Gateway"),
        (live(INFERENCE_POOL, {}, parent("Accepted=True::used", "Exported=False:NotRequested")), H, "used"),
        (live(ALPHA_POOL, {}, {"parent": parent("Accepted=True::used")["parents"]}), H, "used"),
        (live(ALPHA_POOL, {}, {"parent": parent("Accepted=False:NotSupportedByGateway:no")["parents"]}), D, "no"),
        (live(ALPHA_POOL, {}, {"parent": [NO_GATEWAY]}), P, "Gateway"),
        (live(ALPHA_POOL, {}, {"parent": [NO_GATEWAY, *parent("Accepted=True::used")["parents"]]}), H, "used"),
    ],
    "LeaderWorkerSet": [
        (live(LWS, {"replicas": 2}), P, "first group"),
        (live(LWS, {"replicas": 2}, groups(1, 2, "Available=False", "Progressing=True")), P, "1 of 2"),
        (live(LWS, {"replicas": 2}, groups(2, 2, "Available=True")), H, "2 of 2"),
        (live(LWS, {"replicas": 2}, groups(2, 1, "Available=True", "UpdateInProgress=True")), P, "1 are updated"),
        (live(LWS, {"replicas": 2}, groups(2, 1, "Available=True")), H, "1 are updated"),
        (live(LWS, {"replicas": 3}, groups(2, 2, "Available=True")), P, "2 of 3"),
        (live(LWS, {"replicas": 2}, {**groups(2, 2, "Available=True"), "observedGeneration": 1}, generation=2), P, ""),
        (live(LWS, {"replicas": 2}, {**groups(2, 2, "Available=True"), "observedGeneration": 2}, generation=2), H, ""),
        (live(LWS, {"replicas": 0}, groups(0, 0, "Available=True")), S, "no replicas"),
    ],
    "Kueue": [
        (live(QUEUE, {}), P, "active"),
        (live(QUEUE, {}, said("Active=True:Ready:admits")), H, "admits"),
        (live(QUEUE, {}, said("Active=False:FlavorNotFound:no flavor")), D, "no flavor"),
        (live(QUEUE, {}, said("Active=False:Stopped:held")), S, "held"),
        (live(WORKLOAD, {}, said("QuotaReserved=False:Pending:no quota")), P, "no quota"),
        (live(WORKLOAD, {}, said("QuotaReserved=True", "Admitted=True::runs")), H, "runs"),
        (live(WORKLOAD, {}, said("Evicted=True:Deactivated:stopped")), S, "stopped"),
        (live(WORKLOAD, {"active": False}, said("QuotaReserved=False:Deactivated:is deactivated")), S, "deactivated"),
        (live(WORKLOAD, {}, said("QuotaReserved=False:Suspended:queue is stopped")), S, "stopped"),
        (live(WORKLOAD, {}, said("QuotaReserved=False:OnHold:scaled to zero")), S, "scaled to zero"),
        (live(WORKLOAD, {}, said("Evicted=True:DeactivatedDueToRequeuingLimitExceeded:retries")), D, "retries"),
        (live(WORKLOAD, {}, said("Evicted=False:Deactivated:before", "Admitted=True::runs")), H, "runs"),
        (
            live(WORKLOAD, {}, said("Evicted=True:Preempted:by another", "QuotaReserved=False:Pending:waits")),
            P,
            "waits",
        ),
        (live(WORKLOAD, {}, said("QuotaReserved=False:ExceedsMaxQuota:never fits")), D, "never fits"),
        (live(WORKLOAD, {}, said("QuotaReserved=False:WaitingForQuota:waits")), P, "waits"),
        (live(WORKLOAD, {}, said("Admitted=True", "PodsReady=False:WaitForStart:1 of 2")), P, "1 of 2"),
        (live(WORKLOAD, {}, said("Admitted=True::runs", "PodsReady=True:Started")), H, "runs"),
        (live(WORKLOAD, {}, said("Admitted=True::runs", "Evicted=True:Preempted:by another")), P, "by another"),
        (live(WORKLOAD, {}, said("Finished=True:OutOfSync:not in sync")), D, "not in sync"),
        (live(WORKLOAD, {}, said("Finished=True:OwnerNotFound:no Pod")), D, "no Pod"),
        (live(WORKLOAD, {}, said("Finished=True:JobFinished:done")), H, "done"),
        (live(f"{KUEUE}/AdmissionCheck", {}, said("Active=False:BadConfig:no config")), D, "no config"),
        (live(f"{KUEUE}/AdmissionCheck", {}, said("Active=True:Active:can be used")), H, "can be used"),
        (live(f"{KUEUE}/MultiKueueCluster", {}, said("Active=False:ClientConnectionFailed:refused")), D, "refused"),
        (live(f"{KUEUE}/LocalQueue", {}, said("Active=False:ClusterQueueIsInactive:no queue")), D, "no queue"),
        (live(WORKLOAD, {}, said("Finished=True:Succeeded:done")), H, "done"),
        (live(WORKLOAD, {}, said("Finished=True:Failed:exit 1")), D, "exit 1"),
    ],
    "Ray": [
        (live(f"{RAY}/RayCluster", {}), P, "waiting"),
        (live(f"{RAY}/RayCluster", {}, {"state": "ready"}), H, ""),
        (live(f"{RAY}/RayCluster", {}, said("ReplicaFailure=True:FailedCreatePod:no quota")), D, "no quota"),
        (live(f"{RAY}/RayCluster", {}, said("HeadPodReady=False:ContainersNotReady:starting")), P, "starting"),
        (live(f"{RAY}/RayCluster", {}, said("RayClusterSuspended=True")), S, "suspended"),
        (
            live(f"{RAY}/RayCluster", {}, said("RayClusterSuspending=True", "RayClusterProvisioned=True")),
            S,
            "suspended",
        ),
        (live(f"{RAY}/RayCluster", {}, {"state": "ready", "observedGeneration": 1}, generation=3), H, ""),
        (live(f"{RAY}/RayCluster", {}, workers(2, 3)), P, "2 of 3"),
        (live(f"{RAY}/RayCluster", {}, workers(3, 3)), H, "all ready"),
        (live(f"{RAY}/RayCluster", {}, {"state": "ready", "desiredWorkerReplicas": 3}), H, ""),
        (live(f"{RAY}/RayCronJob", {"suspend": True}), S, "suspended"),
        (live(f"{RAY}/RayCronJob", {}), H, "not scheduled"),
        (live(f"{RAY}/RayCronJob", {}, {"lastScheduleTime": "2026-08-01T00:00:00Z"}), H, "2026-08-01"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Retrying", "jobStatus": "FAILED"}), P, "Retrying"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}), S, "Complete"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}), H, "Complete"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Initializing"}), P, "Initializing"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}), H, "Running"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}), D, "Complete"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "Suspended"}), S, "Suspended"),
        (live(f"{RAY}/RayJob", {}, {"jobDeploymentStatus": "ValidationFailed", "message": "name"}), D, "name"),
        (
            live(f"{RAY}/RayService", {}, said("Suspended=True", "Ready=False:SuspendComplete:is suspended")),
            S,
            "suspended",
        ),
        (live(f"{RAY}/RayService", {}, said("Suspending=True", "Ready=False::is suspending")), S, "is suspending"),
        (live(f"{RAY}/RayService", {}, said("Ready=False:ValidationFailed:no cluster")), D, "no cluster"),
        (live(f"{RAY}/RayService", {}, said("Ready=False:InitializingTimeout:30m")), D, "30m"),
        (live(f"{RAY}/RayService", {}, said("Ready=False:Initializing:starts")), P, "starts"),
        (live(f"{RAY}/RayService", {}, said("Ready=True:NonZeroServeEndpoints:serves")), H, "serves"),
        (live(f"{RAY}/RayService", {}, said("Ready=True", "UpgradeInProgress=True::upgrades")), P, "upgrades"),
        (live(f"{RAY}/RayService", {}, {"serviceStatus": "Running"}), H, "Running"),
        (live(f"{RAY}/RayService", {}, serving("RUNNING")), H, "Running"),
        (live(f"{RAY}/RayService", {}, serving("DEPLOY_FAILED", "no module")), D, "app: no module"),
        (live(f"{RAY}/RayService", {}, serving("UNHEALTHY")), D, "app: UNHEALTHY"),
    ],
    "KServe": [
        (live(KSERVE, {}), P, "Waiting"),
        (live(KSERVE, {}, said("Ready=True")), H, "healthy"),
        (live(KSERVE, {}, said("Ready=False:Waiting:no Pod")), P, "no Pod"),
        (live(KSERVE, {}, said("Stopped=True")), S, "Stopped"),
        (live(KSERVE, {}, said("Ready=True", observedGeneration=1), generation=3), H, "healthy"),
        (live(KSERVE, {}, said("Ready=True", "Stopped=False")), H, "healthy"),
        (live(KSERVE, {}, said("Ready=True", modelStatus={"transitionStatus": ""})), H, "healthy"),
        (live(KSERVE, {}, said("Ready=True", modelStatus=model("InProgress", "Pending"))), H, "healthy"),
        (live(KSERVE, {}, said("Ready=True", modelStatus=model("InProgress", "Loading"))), P, "InProgress"),
        (live(KSERVE, {}, said("Ready=Unknown", modelStatus=model("InProgress", "Pending"))), P, "InProgress"),
        (live(KSERVE, {}, said("Ready=True", modelStatus=model("InvalidSpec", "FailedToLoad"))), D, "InvalidSpec"),
        (live(GRAPH, {}), P, "Waiting"),
        (live(GRAPH, {}, said("Ready=True", observedGeneration=1), generation=3), H, ""),
        (live(GRAPH, {}, said("Ready=Unknown::starting", "Stopped=False")), P, "Waiting"),
        (live(GRAPH, {}, said("Ready=False:RevisionFailed:exit 1", "Stopped=False")), D, "exit 1"),
        (live(GRAPH, {}, said("Stopped=True", "Ready=False:Stopped")), S, "Stopped"),
        (live(GRAPH, {}, said("Stopped=True", "Ready=False:Stopped", "Stopped=False")), P, "Waiting"),
        (live(LLM, {}), P, "Waiting"),
        (live(LLM, {}, said("Ready=True")), H, ""),
        (live(LLM, {}, said("Ready=False:MinimumReplicasUnavailable:0 of 1")), P, "0 of 1"),
        (live(LLM, {}, said("Ready=False:ConfigNotFound:no preset")), D, "no preset"),
        (live(LLM, {}, said("Ready=False:CombineBaseError:no base")), D, "no base"),
        (live(LLM, {}, said("Ready=False:ProgressDeadlineExceeded:late")), D, "late"),
        (live(LLM, {}, said("Ready=False:Stopped:Service is stopped")), S, "stopped"),
        (live(KSERVE, {}, said("Ready=False", modelStatus={"transitionStatus": "BlockedByFailedLoad"})), D, "Blocked"),
    ],
    "Knative": [
        (live(KNATIVE, {}), P, "Waiting"),
        (live(KNATIVE, {}, said("ConfigurationsReady=True", "RoutesReady=True", "Ready=True")), H, "healthy"),
        (live(KNATIVE, {}, said("ConfigurationsReady=Unknown::starting")), P, "starting"),
        (live(KNATIVE, {}, said("Ready=False:RevisionFailed:no image")), D, "no image"),
        (live(KNATIVE, {}, said("ConfigurationsReady=True")), P, ""),
        (live(KNATIVE, {}, {**KNATIVE_READY, "observedGeneration": 1}, generation=2), P, "Waiting"),
        (live(KNATIVE, {}, {**KNATIVE_READY, "observedGeneration": 2}, generation=2), H, "healthy"),
        (live(f"{SERVING}/Revision", {}), P, "Waiting for Revision"),
        (live(f"{SERVING}/Revision", {}, said("Ready=Unknown:Deploying")), P, "Deploying"),
        (live(f"{SERVING}/Revision", {}, said("Ready=False:ContainerMissing:no image")), D, "no image"),
        (live(f"{SERVING}/Revision", {}, said("Active=False:NoTraffic", "Ready=True")), H, ""),
        (live(f"{SERVING}/Configuration", {}, said("Ready=False:RevisionFailed:exit 1")), D, "exit 1"),
        (live(f"{SERVING}/Route", {}, said("Ready=True", observedGeneration=1), generation=2), P, "Waiting for Route"),
        (live(f"{SERVING}/Route", {}, said("Ready=False:RevisionMissing:no revision")), D, "no revision"),
        (live(SCALING, {}, said("Active=False:NoTraffic:scaled to zero", "Ready=False:NoTraffic")), H, "to zero"),
        (live(SCALING, {}, said("Active=False:TimedOut", "Ready=False:TimedOut:not activated")), D, "not activated"),
        (live(SCALING, {}, said("Active=Unknown:Queued", "Ready=Unknown:Queued")), P, "Queued"),
        (live(KNATIVE_INGRESS, {}, said("Ready=Unknown:Uninitialized:waits")), P, "waits"),
    ],
    "KEDA": [
        (live(SCALED, {}), P, "Creating"),
        (live(SCALED, {}, said("Ready=True::scales")), H, "scales"),
        (live(SCALED, {}, said("Ready=False::no trigger")), D, "no trigger"),
        (live(SCALED, {}, said("Ready=True", "Fallback=True::fallback")), D, "fallback"),
        (live(SCALED, {}, said("Ready=True", "Paused=True::paused")), S, "paused"),
        (live(SCALED, {}, said("Ready=Unknown", "Active=Unknown", "Paused=False")), P, "Creating"),
        (live(SCALED, {}, said("Ready=Unknown:PartialTriggerError:some triggers")), D, "some triggers"),
        (live(SCALED, {}, said("Ready=Unknown", "Paused=True::paused")), S, "paused"),
        (live(SCALED, {}, said("Ready=False::no target", "Paused=True::paused")), D, "no target"),
        (live(SCALED, {}, said("Ready=True", "HPAActive=False:HPAMetricsUnavailable:no metrics")), D, "no metrics"),
        (live(SCALED, {}, said("Ready=True::scales", "HPAActive=True:ScalingDisabled:zero")), H, "scales"),
        (live(SCALED, {}, said("Ready=True", "Paused=True::paused", "HPAActive=False::no metrics")), S, "paused"),
        (live(SCALED_JOB, {}, said("Ready=Unknown", "Active=Unknown", "Fallback=Unknown")), P, "Waiting"),
        (live(SCALED_JOB, {}, said("Ready=Unknown:PartialTriggerError:some triggers")), D, "some triggers"),
        (live(SCALED_JOB, {}, said("Ready=True::scales", "Active=False:ScalerNotActive")), H, "scales"),
    ],
    "Argo Rollouts": [
        (live(ROLLOUT, CANARY, {}, generation=2), P, ""),
        (live(ROLLOUT, CANARY, {"observedGeneration": "1", "phase": "Degraded", "message": "crashes"}), D, "crashes"),
        (live(ROLLOUT, CANARY, {"observedGeneration": "1", "phase": "Paused", "message": "step"}), S, "step"),
        (live(ROLLOUT, CANARY, {"observedGeneration": "1", "phase": "Healthy"}), H, ""),
        (live(ROLLOUT, CANARY, {"observedGeneration": "1", "phase": "Progressing", "message": "more"}), P, "more"),
        (live(ROLLOUT, CANARY, {**ROLLED, "phase": "Paused", "controllerPause": True}), P, "to unpause"),
        (live(ROLLOUT, CANARY, {**ROLLED, "phase": "Paused", **PAUSED}), S, ""),
        (live(ROLLOUT, CANARY, {**ROLLED, "phase": "Degraded", "abort": True, "message": "aborted"}), D, "aborted"),
        (live(ROLLOUT, REFERENCE, {**ROLLED, "phase": "Healthy", **SEEN}, annotations={"note": "x"}), H, ""),
        (
            live(ROLLOUT, REFERENCE, {**ROLLED, "phase": "Healthy", **SEEN}, annotations={WORKLOAD_GENERATION: "1"}),
            H,
            "",
        ),
        (
            live(ROLLOUT, REFERENCE, {**ROLLED, "phase": "Healthy", **SEEN}, annotations={WORKLOAD_GENERATION: "2"}),
            P,
            "",
        ),
        (live(EXPERIMENT, {}, {"phase": "Inconclusive", "message": "no data"}), U, "no data"),
        (live(EXPERIMENT, {}, {"phase": "Inconclusive"}), U, "inconclusive"),
        (live(EXPERIMENT, {}, {"phase": "Successful"}), H, "successful"),
    ],
}


def test_every_platform_has_at_least_five_cases() -> None:
    assert [name for name, cases in CASES.items() if len(cases) < 5] == []


@pytest.mark.parametrize(
    ("found", "health", "part"),
    [pytest.param(*case, id=f"{name} {index}") for name, cases in CASES.items() for index, case in enumerate(cases)],
)
def test_a_platform_is_judged_by_its_own_signs(found: Manifest, health: Health, part: str) -> None:
    status = assess(found)
    assert (status.health, part in status.message) == (health, True), status.message
