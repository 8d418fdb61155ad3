"""One table of signs for each kind that has a rule: what it says, and the health that follows."""

from __future__ import annotations

import pytest

from gitsync.health.assess import assess, kind_of, rule_for
from gitsync.objects.health import Health
from tests.health.factories import live, said

H, S, P, D, U = Health.HEALTHY, Health.SUSPENDED, Health.PROGRESSING, Health.DEGRADED, Health.UNKNOWN

JOB, CRON = "batch/v1/Job", "batch/v1/CronJob"
CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"
HPA, PDB = "autoscaling/v2/HorizontalPodAutoscaler", "policy/v1/PodDisruptionBudget"
GATEWAY = "gateway.networking.k8s.io/v1"
ARGO, ROLLOUT = "argoproj.io/v1alpha1", "argoproj.io/v1alpha1/Rollout"
ES, PG = "elasticsearch.k8s.elastic.co/v1/Elasticsearch", "postgresql.cnpg.io/v1/Cluster"
OTEL = "opentelemetry.io/v1beta1/OpenTelemetryCollector"
EVENTING = "operator.knative.dev/v1beta1/KnativeEventing"
SERVING = "operator.knative.dev/v1beta1/KnativeServing"
CLUSTER_SECRET = "external-secrets.io/v1/ClusterExternalSecret"
EXTERNAL_SECRET = "external-secrets.io/v1/ExternalSecret"
RABBIT = "rabbitmq.com/v1beta1/RabbitmqCluster"
KSERVE = "serving.kserve.io/v1beta1/InferenceService"
IMAGE_POLICY = "image.toolkit.fluxcd.io/v1/ImagePolicy"
HELM = "helm.toolkit.fluxcd.io/v2/HelmRelease"
OLD_HPA = "autoscaling/v1/HorizontalPodAutoscaler"
TLS_POLICY = f"{GATEWAY}/BackendTLSPolicy"
SCALABLE = '[{"type":"AbleToScale","status":"True"}]'
HPA_NOTE = "autoscaling.alpha.kubernetes.io/conditions"
CANARY = {"replicas": 1, "strategy": {"canary": {}}}
GREEN = {"replicas": 1, "strategy": {"blueGreen": {}}}
ROLLED = {"observedGeneration": 1, "currentPodHash": "a", "updatedReplicas": 1, "availableReplicas": 1, "replicas": 1}
READY_CATALOG = {"connectionState": {"lastObservedState": "READY"}}
SETS = "gitsync.dev/v1alpha1/ApplicationSet"
VPA = "autoscaling.k8s.io/v1/VerticalPodAutoscaler"
KNATIVE_SERVING = ("InstallSucceeded=True", "DependenciesInstalled=True", "DeploymentsAvailable=True")


def parents(*conditions, generation=None):
    found = said(*conditions)["conditions"]
    for each in found:
        if generation:
            each["observedGeneration"] = generation
    return {"parents": [{"parentRef": {"name": "gw"}, "conditions": found}]}


def ancestors(*conditions):
    return {"ancestors": [{"ancestorRef": {"name": "gw"}, "conditions": said(*conditions)["conditions"]}]}


def observed(*conditions):
    return {**said(*conditions), "observedGeneration": 1}


CASES = [
    (live(JOB, {}, {}), P, ""),
    (live(JOB, {}, said("Complete=True::done")), H, "done"),
    (live(JOB, {}, said("Failed=True::backoff", "Complete=False")), D, "backoff"),
    (live(JOB, {}, said("Suspended=True::later")), S, "later"),
    (live(JOB, {}, said("Suspended=False::resumed")), H, "resumed"),
    (live(CRON, {"suspend": True}, {}), H, "Suspended"),
    (live(CRON, {}), P, "Waiting"),
    (live(CRON, {}, {}), H, "not been scheduled"),
    (live(CRON, {}, {"lastScheduleTime": "2026-01-01T00:00:00Z"}), H, "never completed"),
    (
        live(CRON, {}, {"lastScheduleTime": "2026-01-02", "lastSuccessfulTime": "2026-01-01", "active": [{}]}),
        H,
        "is running",
    ),
    (live(CRON, {}, {"lastScheduleTime": "2026-01-02", "lastSuccessfulTime": "2026-01-01"}), D, "not completed"),
    (live(CRON, {}, {"lastScheduleTime": "2026-01-01", "lastSuccessfulTime": "2026-01-02"}), H, "completed its last"),
    (live(f"{ARGO}/Workflow", {}, {}), P, ""),
    (live(f"{ARGO}/Workflow", {}, {"phase": "Succeeded"}), H, ""),
    (live(f"{ARGO}/Workflow", {}, {"phase": "Error", "message": "no"}), D, "no"),
    (live(f"{ARGO}/Workflow", {}, {"phase": "Odd"}), U, ""),
    (live("Service", {"type": "LoadBalancer"}, {}), P, ""),
    (live("Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}), H, ""),
    (live("Service", {}), H, ""),
    (live("networking.k8s.io/v1/Ingress", {}, {}), P, ""),
    (live("networking.k8s.io/v1/Ingress", {}, {"loadBalancer": {"ingress": [{}]}}), H, ""),
    (live("PersistentVolumeClaim", {}, {"phase": "Bound"}), H, ""),
    (live("PersistentVolumeClaim", {}, {"phase": "Pending"}), P, ""),
    (live("PersistentVolumeClaim", {}, {"phase": "Lost"}), D, ""),
    (live("PersistentVolumeClaim", {}, {}), U, ""),
    (live("Namespace", {}, {"phase": "Active"}), H, ""),
    (live("Namespace", {}, {"phase": "Terminating"}), P, ""),
    (live("ConfigMap"), H, ""),
    (live("rbac.authorization.k8s.io/v1/ClusterRole"), H, ""),
    (live("apiregistration.k8s.io/v1/APIService", {}, {}), P, "Waiting"),
    (live("apiregistration.k8s.io/v1/APIService", {}, said("Other=True", "Available=True:Passed:ok")), H, "Passed: ok"),
    (live("apiregistration.k8s.io/v1/APIService", {}, said("Available=False:Down:no")), P, "Down: no"),
    (live(HPA, {}, {}), P, "Waiting to Autoscale"),
    (live(HPA, {}, said("AbleToScale=False:FailedGetScale:gone")), D, "gone"),
    (live(HPA, {}, said("ScalingActive=False:Odd", "ScalingLimited=True::max")), H, "max"),
    (live(OLD_HPA, {}, {}, annotations={HPA_NOTE: "{"}), U, "conditions annotation"),
    (live(OLD_HPA, {}, {}), P, ""),
    (
        live(OLD_HPA, annotations={HPA_NOTE: SCALABLE}),
        H,
        "",
    ),
    (live(HPA, {}, said("AbleToScale=False:Odd")), P, "Waiting"),
    (live(PDB, {}, {}), P, "Waiting"),
    (live(PDB, {}, said("DisruptionAllowed=False:SyncFailed")), D, "SyncFailed"),
    (live(PDB, {}, said("DisruptionAllowed=False:InsufficientPods")), H, "InsufficientPods"),
    (live(CRD, {}, {}, deletionTimestamp="2026-01-01T00:00:00Z"), P, "Pending deletion"),
    (live(CRD, {}, {}), P, "not found"),
    (live(CRD, {}, said("Terminating=True::bye")), P, "terminating: bye"),
    (live(CRD, {}, said("NamesAccepted=False::taken")), D, "taken"),
    (live(CRD, {}, said("Established=False:Installing")), P, "being installed"),
    (live(CRD, {}, said("Established=False:Other")), D, "not established"),
    (live(CRD, {}, said("Established=True", "NonStructuralSchema=True::odd")), D, "Schema violations found: odd"),
    (live(CRD, {}, said("NamesAccepted=True", "Established=True")), H, ""),
    (live(CRD, {}, said("NonStructuralSchema=True::odd", "Terminating=True::bye")), P, "terminating: bye"),
    (live("security.istio.io/v1/AuthorizationPolicy", {}), H, ""),
    (live("networking.istio.io/v1/VirtualService", {}, {"validationMessages": []}), H, ""),
    (live("notification.toolkit.fluxcd.io/v1beta2/Provider", {}, said("Ready=False:No")), P, "No"),
    (live(f"{ARGO}/AnalysisRun", {}, {"phase": "Running"}), P, "running"),
    (live(f"{ARGO}/AnalysisRun", {}, {"phase": "Successful"}), H, "completed"),
    (live(f"{ARGO}/AnalysisRun", {}, {"phase": "Failed", "message": "bad"}), D, "bad"),
    (live(f"{ARGO}/AnalysisRun", {}, {"phase": "Error"}), D, "had an error"),
    (live(f"{ARGO}/AnalysisRun", {}, {"phase": "Inconclusive"}), U, "inconclusive"),
    (live(f"{ARGO}/AnalysisRun", {}), P, "Waiting"),
    (live(f"{ARGO}/Experiment", {}, {"phase": "Pending"}), P, "pending"),
    (live(f"{ARGO}/Experiment", {}, {"phase": "Successful"}), H, ""),
    (live(f"{ARGO}/Experiment", {}, {"phase": "Failed"}), D, "failed"),
    (live(f"{ARGO}/Experiment", {}, {"phase": "Error"}), D, "error"),
    (live(f"{ARGO}/Experiment", {}), P, "Waiting"),
    (live(f"{ARGO}/CronWorkflow", {}, said("SubmissionError=True::no")), D, "no"),
    (live(f"{ARGO}/CronWorkflow", {}, said("Completed=True::done")), H, "done"),
    (live(f"{ARGO}/CronWorkflow", {}, said("Other=True")), H, "healthy"),
    (live(f"{ARGO}/CronWorkflow", {}), H, "healthy"),
    (live(ROLLOUT, CANARY), P, "to be observed"),
    (live(ROLLOUT, CANARY, {"observedGeneration": "1"}, generation=2), P, "to be observed"),
    (live(ROLLOUT, CANARY, {**ROLLED, "observedGeneration": "6fd8", "stableRS": "a"}, generation=2), H, ""),
    (live(ROLLOUT, {"workloadRef": {}}, ROLLED, annotations={"note": "x"}), H, ""),
    (
        live(ROLLOUT, {"workloadRef": {}}, ROLLED, annotations={"rollout.argoproj.io/workload-generation": "2"}),
        P,
        "to be observed",
    ),
    (live(ROLLOUT, CANARY, {**ROLLED, "phase": "Paused", "message": "step"}), S, "step"),
    (live(ROLLOUT, CANARY, {**ROLLED, "phase": "Odd"}), U, ""),
    (live(ROLLOUT, CANARY, {**ROLLED, **said("InvalidSpec=True::bad")}), D, "bad"),
    (live(ROLLOUT, CANARY, {**ROLLED, **said("Progressing=False:RolloutAborted:stop")}), D, "stop"),
    (live(ROLLOUT, {**CANARY, "paused": True}, ROLLED), S, "paused"),
    (live(ROLLOUT, CANARY, {**ROLLED, "pauseConditions": [{}]}), S, "paused"),
    (live(ROLLOUT, CANARY, {"observedGeneration": 1}), P, "not been reconciled"),
    (live(ROLLOUT, CANARY, {**ROLLED, "updatedReplicas": 0}), P, "More replicas"),
    (live(ROLLOUT, CANARY, {**ROLLED, "availableReplicas": 0}), P, "becoming available"),
    (live(ROLLOUT, CANARY, {**ROLLED, "replicas": 2}), P, "pending termination"),
    (live(ROLLOUT, CANARY, {**ROLLED, "canary": {"stableRS": "b"}}), P, "finish steps"),
    (live(ROLLOUT, GREEN, {**ROLLED, "blueGreen": {"activeSelector": "b"}}), P, "cutover"),
    (live(ROLLOUT, GREEN, {**ROLLED, "blueGreen": {"activeSelector": "a"}, "stableRS": "b"}), P, "analysis"),
    (live(ROLLOUT, GREEN, {**ROLLED, "blueGreen": {"activeSelector": "a"}}), H, ""),
    (live("cert-manager.io/v1/Certificate", {}, said("Ready=False::no", "Issuing=True::busy")), P, "busy"),
    (live("cert-manager.io/v1/Certificate", {}, said("Ready=True::up")), H, "up"),
    (live("cert-manager.io/v1/Issuer", {}, said("Ready=False::no")), D, "no"),
    (live("cert-manager.io/v1/CertificateRequest", {}, said("Approved=True", "Ready=False:Pending")), P, "Waiting"),
    (live("cert-manager.io/v1/CertificateRequest", {}, said("Ready=False:Failed:no")), D, "no"),
    (live("cert-manager.io/v1/CertificateRequest", {}, said("Denied=True::policy")), D, "policy"),
    (live("trust.cert-manager.io/v1alpha1/Bundle", {}, said("Synced=True::ok")), H, "ok"),
    (live(SETS, {}, {}, generation=1), P, "newest generation"),
    (live(SETS, {}, observed("Ready=True:Current"), generation=1), H, ""),
    (live(SETS, {}, {**observed("Ready=True:Current"), "observedGeneration": 0}, generation=1), P, "newest generation"),
    (live(SETS, {}, observed("Ready=False:AwaitingApproval:held", "Reconciling=True"), generation=1), S, "held"),
    (live(SETS, {}, observed("Ready=False:NameTaken:taken", "Stalled=True:NameTaken:taken"), generation=1), D, "taken"),
    (live(SETS, {}, observed("Ready=False:Writing:busy", "Reconciling=True"), generation=1), P, "busy"),
    (live(f"{ARGO}/ApplicationSet", {}, said("ErrorOccurred=False", "ResourcesUpToDate=True::ok")), H, "ok"),
    (live(f"{ARGO}/ApplicationSet", {}, said("ErrorOccurred=True::bad", "ResourcesUpToDate=True")), D, "bad"),
    (live(f"{ARGO}/ApplicationSet", {}, said("ResourcesUpToDate=True", "RolloutProgressing=True::on")), P, "on"),
    (live(VPA, {}, said("RecommendationProvided=False")), P, "Waiting"),
    (live(VPA, {}, said("RecommendationProvided=True")), H, ""),
    (live(VPA, {}, said("NoPodsMatched=True::none")), D, "none"),
    (live("flagger.app/v1beta1/Canary", {}, {"phase": "Initialized"}), H, "Initialized"),
    (live("flagger.app/v1beta1/Canary", {}, {"phase": "Finalising"}), P, "Finalising"),
    (live("cluster.x-k8s.io/v1beta1/Cluster", {"paused": True}, {"phase": "Provisioned"}), S, "paused"),
    (live("cluster.x-k8s.io/v1beta1/Machine", {}, {"phase": "Failed"}), D, "Failed"),
    (live("acme.cert-manager.io/v1/Order", {}, {"state": "errored", "reason": "limit"}), D, "limit"),
    (live("acme.cert-manager.io/v1/Order", {}, {"state": "valid"}), H, "valid"),
    (live("projectcontour.io/v1/HTTPProxy", {}, {"currentStatus": "invalid", "description": "tls"}), D, "tls"),
    (live("projectcontour.io/v1/HTTPProxy", {}), P, "Waiting for HTTPProxy"),
    (live("kubevirt.io/v1/VirtualMachine", {}, said("Ready=False", printableStatus="Stopped")), S, "Stopped"),
    (live("operators.coreos.com/v1alpha1/CatalogSource", {}, READY_CATALOG), H, "READY"),
    (live("cert-manager.io/v1/Issuer", {}), P, "Initializing"),
    (live("bitnami.com/v1alpha1/SealedSecret", {}, said("Synced=False::no")), D, "no"),
    (live(f"{ARGO}/EventBus", {}, said("Deployed=True:Up")), H, "Up"),
    (live("kafka.strimzi.io/v1beta2/Kafka", {}, said("NotReady=True:Creating")), P, "Waiting"),
    (live("kafka.strimzi.io/v1beta2/Kafka", {}, said("NotReady=True:Timeout:late")), D, "late"),
    (live("kafka.strimzi.io/v1beta2/KafkaTopic", {}, said("Ready=True")), H, ""),
    (live("kafka.strimzi.io/v1beta2/KafkaTopic", {}, said("Ready=False")), P, "Waiting"),
    (live("karpenter.sh/v1/NodePool", {}, said("Ready=Unknown", "NodeClassReady=False::no class")), D, "no class"),
    (live("karpenter.sh/v1/NodeClaim", {}, {"observedGeneration": 1}, generation=2), P, "reconciled"),
    (live("karpenter.sh/v1/NodeClaim", {}, said("Ready=False::lost")), D, "lost"),
    (live("karpenter.sh/v1/NodeClaim", {}, said("Registered=True", "Initialized=True")), P, "initialized, waiting"),
    (live("keda.sh/v1alpha1/ScaledObject", {}, said("Ready=True::up", "Paused=True::hold")), S, "hold"),
    (live("keda.sh/v1alpha1/ScaledObject", {}, said("Ready=True::up", "Fallback=True::spare")), D, "spare"),
    (live("keda.sh/v1alpha1/ScaledJob", {}, said("Ready=Unknown::eh")), D, "eh"),
    (live("keda.sh/v1alpha1/ScaledJob", {}, {}), P, "Waiting"),
    (live("source.toolkit.fluxcd.io/v1/GitRepository", {"suspend": True}), S, "suspended"),
    (live("source.toolkit.fluxcd.io/v1/GitRepository", {}), P, "unknown"),
    (live("source.toolkit.fluxcd.io/v1/GitRepository", {}, said("Ready=Unknown:Busy", "Reconciling=True")), P, "Busy"),
    (live("source.toolkit.fluxcd.io/v1/GitRepository", {}, said("Ready=True:Ok", "ArtifactInStorage=True")), H, "Ok"),
    (live("source.toolkit.fluxcd.io/v1/GitRepository", {}, said("Ready=True:Ok")), D, "Ok"),
    (live("source.toolkit.fluxcd.io/v1/Bucket", {}, said("Ready=False:No", "ArtifactOutdated=True:Old")), D, "No Old"),
    (live("source.toolkit.fluxcd.io/v1/HelmRepository", {"type": "oci"}), H, "oci"),
    (live("source.toolkit.fluxcd.io/v1/HelmRepository", {"type": "oci", "suspend": True}), S, "suspended"),
    (live("kustomize.toolkit.fluxcd.io/v1/Kustomization", {}, said("Ready=True:Done")), H, "Done"),
    (live(HELM, {}, said("Ready=True:Done", "Released=True")), H, "Done"),
    (live(HELM, {}, said("Ready=True:Done", "Released=True", "TestSuccess=True")), H, "Done"),
    (live(IMAGE_POLICY, {}, said("Ready=False:New", "Reconciling=True:NewGeneration")), P, "New"),
    (live(IMAGE_POLICY, {}, said("Ready=False:New", "Reconciling=True:Other")), D, "New"),
    (live("notification.toolkit.fluxcd.io/v1/Receiver", {}, said("Ready=False:No", "Reconciling=True")), D, "No"),
    (live(f"{GATEWAY}/Gateway", {}), P, "Waiting"),
    (live(f"{GATEWAY}/Gateway", {}, said("Accepted=False::refused")), D, "refused"),
    (live(f"{GATEWAY}/Gateway", {}, said("Programmed=False")), P, "Gateway is still being programmed"),
    (live(f"{GATEWAY}/Gateway", {}, {"listeners": [said("ResolvedRefs=False")]}), D, "Listener: Failed condition"),
    (live(f"{GATEWAY}/Gateway", {}, {"listeners": [said("Programmed=True")]}), H, "healthy"),
    (live(f"{GATEWAY}/GatewayClass", {}, said("Accepted=True")), H, "accepted"),
    (live(f"{GATEWAY}/GatewayClass", {}, said("Accepted=False")), D, "not accepted"),
    (live(f"{GATEWAY}/GatewayClass", {}, said("Accepted=Unknown")), P, "Waiting"),
    (live(f"{GATEWAY}/GatewayClass", {}, said("Other=True")), P, "Waiting"),
    (live(f"{GATEWAY}/HTTPRoute", {}, parents("Accepted=True")), H, "HTTPRoute is healthy"),
    (live(f"{GATEWAY}/HTTPRoute", {}, parents("Accepted=False::no")), D, "Parent gw: no"),
    (live(f"{GATEWAY}/HTTPRoute", {}, parents("Accepted=False", generation=1), generation=2), P, "Waiting"),
    (live(f"{GATEWAY}/TLSRoute", {}, parents("Accepted=True")), H, "TLSRoute is healthy"),
    (live(f"{GATEWAY}/GRPCRoute", {}, parents("Programmed=Unknown", generation=2), generation=2), P, "Parent gw"),
    (live(TLS_POLICY, {}, ancestors("Accepted=True")), H, "healthy"),
    (live(TLS_POLICY, {}, ancestors("Accepted=False:TargetNotFound")), P, "Waiting"),
    (live(TLS_POLICY, {}, ancestors("Accepted=True", "ResolvedRefs=False::gone")), D, "Ancestor gw: gone"),
    (live("acid.zalan.do/v1/postgresql", {}, {}), P, "Waiting"),
    (live("acid.zalan.do/v1/postgresql", {}, {"PostgresClusterStatus": "Running"}), H, ""),
    (live("acid.zalan.do/v1/postgresql", {}, {"PostgresClusterStatus": "SyncFailed"}), D, ""),
    (live(PG, {}, {}), P, ""),
    (live(PG, {}, said("Ready=True", phase="Failing over", phaseReason="lost")), D, "lost"),
    (live(PG, {}, said("cnpg.io/hibernation=True::asleep")), S, "asleep"),
    (live(PG, {}, said("cnpg.io/hibernation=False::waking")), D, "waking"),
    (live(PG, {}, said(phase="New phase")), U, ""),
    (live(PG, {}, {}, annotations={"cnpg.io/reconciliationLoop": "disabled"}), S, "suspended"),
    (live(ES, {}, {}), U, ""),
    (live(ES, {"nodeSets": [{"count": 2}]}, {"availableNodes": 1}), P, "is 2"),
    (live(ES, {}, {"availableNodes": 0, "phase": "ApplyingChanges", "health": "green"}), P, "ApplyingChanges"),
    (live(ES, {}, {"availableNodes": 0, "phase": "Invalid", "health": "green"}), D, "Invalid"),
    (live(ES, {}, {"availableNodes": 0, "phase": "Ready", "health": "green"}), H, "Green"),
    (live(ES, {}, {"availableNodes": 0, "phase": "Ready", "health": "yellow"}), P, "Yellow"),
    (live(ES, {}, {"availableNodes": 0, "phase": "Ready", "health": "red"}), D, "Red"),
    (live(ES, {}, {"availableNodes": 0, "phase": "Ready", "health": "blue"}), U, ""),
    (live(RABBIT, {}, said("ReconcileSuccess=False::no")), D, "no"),
    (live(RABBIT, {"replicas": 0}, said("AllReplicasReady=False:ScaledToZero")), S, "0"),
    (live(RABBIT, {}, said("ClusterAvailable=False")), P, "formation"),
    (live(EXTERNAL_SECRET, {}, said("Other=True", "Ready=True::ok")), H, "ok"),
    (live(EXTERNAL_SECRET, {}, said("Ready=Unknown")), P, "Waiting"),
    (live(EXTERNAL_SECRET, {"refreshPolicy": "OnChange"}, said("Ready=True", refreshTime="2")), P, "Waiting"),
    (live(CLUSTER_SECRET, {}, said("Ready=True::ok")), H, "ok"),
    (live(CLUSTER_SECRET, {}, said("Ready=True", "PartiallyReady=True::some")), D, "some"),
    (live(CLUSTER_SECRET, {}), P, "Waiting"),
    (live("monitoring.coreos.com/v1/Prometheus", {}, {}), P, "initialization"),
    (live("monitoring.coreos.com/v1/Prometheus", {}, said("Available=False:SomePodsNotReady")), P, "SomePodsNotReady"),
    (live("monitoring.coreos.com/v1/Alertmanager", {}, said("Available=True")), H, "available"),
    (live(OTEL, {}), P, "Waiting"),
    (live(OTEL, {"mode": "sidecar"}, {}), H, "sidecar"),
    (live(OTEL, {}, {}), P, "not available"),
    (live(OTEL, {}, {"scale": {"statusReplicas": "?"}}), P, "Unable"),
    (live(OTEL, {}, {"scale": {"statusReplicas": "0/0"}}), D, "No replicas"),
    (live(OTEL, {}, {"scale": {"statusReplicas": "1/2"}}), P, "starting"),
    (live(EVENTING, {}), P, "Waiting"),
    (live(EVENTING, {}, said("Ready=True", "InstallSucceeded=True")), H, "healthy"),
    (live(EVENTING, {}, said("Ready=True")), D, "1: Ready | True"),
    (live(SERVING, {}, said("Ready=True", *KNATIVE_SERVING)), H, "healthy"),
    (live("serving.knative.dev/v1/Service", {}), P, "Waiting"),
    (live("serving.knative.dev/v1/Service", {}, said("Ready=Unknown:Deploying:soon")), P, "since Deploying. soon"),
    (live("serving.knative.dev/v1/Service", {}, said("Ready=False")), D, "Ready is False"),
    (live("serving.knative.dev/v1/Service", {}, said("Ready=True", "Other=odd")), P, ""),
    (live(KSERVE, {}, {}), P, "Waiting"),
    (live(KSERVE, {}, said("Ready=False:No:why")), P, "1: Ready | False | No | why"),
    (live("snapshot.storage.k8s.io/v1/VolumeSnapshot", {}, {"error": {"message": "no"}}), D, "no"),
    (live("pkg.crossplane.io/v1/Provider", {}), P, "Waiting"),
    (live("pkg.crossplane.io/v1/Provider", {}, said("Installed=True:A", "Healthy=True:B")), H, "A B"),
    (live("s3.aws.crossplane.io/v1/Bucket", {}, {}), P, "Provisioning"),
    (live("s3.aws.crossplane.io/v1/Bucket", {}, said("Synced=False::no")), D, "no"),
    (live("s3.aws.crossplane.io/v1/Bucket", {}, said("Synced=True")), P, "Provisioning"),
    (live("aws.crossplane.io/v1/ProviderConfig", {}, {"users": 1}), H, "in use"),
    (live("aws.upbound.io/v1/ProviderConfig", {}, {}), H, "up-to-date"),
    (live("s3.aws.upbound.io/v1/Bucket", {}, said("Ready=True")), H, "up-to-date"),
]  # fmt: skip


def test_there_is_a_case_for_every_health():
    assert {health for _, health, _ in CASES} == {H, S, P, D, U}


@pytest.mark.parametrize(
    ("found", "health", "message"), [pytest.param(*case, id=f"{case[0]['kind']}-{i}") for i, case in enumerate(CASES)]
)
def test_a_kind_is_judged_by_its_own_signs(found, health, message):
    result = assess(found)
    assert (result.health, message in result.message) == (health, True), result


def test_a_definition_that_goes_says_so_itself():
    found = live(CRD, {}, {}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert rule_for(kind_of(found))(found).message == "CRD is terminating"
