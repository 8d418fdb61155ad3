"""
Tables of kinds whose health needs no code: one condition, one phase, or nothing but existence.

A row of each table is judged as its class describes.
"""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    message,
    progressing,
    reason_of,
    spec_of,
    suspended,
    text,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind


@dataclass(frozen=True, slots=True)
class ByCondition:
    """
    Judge by the first decisive one of several conditions.

    A condition of ``good`` that is True means Healthy, one of ``bad`` that is True, or one of ``good`` that is False,
    means Degraded; ``first`` that is True means Progressing, whatever the others are. A failure for
    ``tolerated_reason`` is not one yet. Until then: ``waiting``.
    """

    waiting: str
    good: tuple[str, ...] = ("Ready",)
    bad: tuple[str, ...] = ()
    first: str = ""
    failing: tuple[str, ...] = ()
    ready_message: str | None = None
    false_is_degraded: bool = True
    tolerated_reason: str = ""

    def __call__(self, live: Manifest) -> HealthStatus:
        """Judge a live object."""
        conditions = conditions_of(live)
        busy = condition_of(conditions, self.first) if self.first else None
        # A certificate that is renewed is still Ready; its new state is not known until the issue ends.
        if busy is not None and busy.get("status") == "True":
            return progressing(message(busy))
        for condition in conditions:
            status = condition.get("status")
            # Strimzi and cert-manager set a negative condition at first, which means only that they have begun.
            if self.tolerated_reason and condition.get("reason") == self.tolerated_reason:
                continue
            if condition.get("type") in self.bad and status == "True":
                return degraded(message(condition))
            if condition.get("type") in self.good and status == "True":
                return healthy(reason_of(condition) if self.ready_message is None else self.ready_message)
            if condition.get("type") in self.good and status == "False" and self.false_is_degraded:
                return degraded(reason_of(condition))
        for condition in conditions:
            if condition.get("type") in self.failing and condition.get("status") == "False":
                return degraded(message(condition))
        return progressing(self.waiting)


def _plain(kind: str) -> ByCondition:
    return ByCondition(f"Waiting for {kind}")


def _strimzi(waiting: str, tolerated_reason: str = "") -> ByCondition:
    return ByCondition(
        waiting,
        bad=("NotReady",),
        ready_message="",
        false_is_degraded=False,
        tolerated_reason=tolerated_reason,
    )


_BY_CONDITION: dict[GroupKind, Rule] = {
    GroupKind("argoproj.io", "ApplicationSet"): ByCondition(
        "Waiting for the status to be reported",
        # ErrorOccurred may stay True with an old message beside it; the first decisive condition of the list counts.
        good=("ResourcesUpToDate",),
        bad=("ErrorOccurred",),
        first="RolloutProgressing",
    ),
    GroupKind("argoproj.io", "EventBus"): ByCondition("Waiting for initialization", good=("Deployed",)),
    GroupKind("autoscaling.k8s.io", "VerticalPodAutoscaler"): ByCondition(
        "Waiting for VPA recommendation",
        good=("RecommendationProvided",),
        bad=("NoPodsMatched",),
        false_is_degraded=False,
    ),
    GroupKind("bitnami.com", "SealedSecret"): ByCondition(
        "Waiting for Sealed Secret to be decrypted", good=("Synced",)
    ),
    GroupKind("cert-manager.io", "Certificate"): ByCondition("Waiting for certificate", first="Issuing"),
    GroupKind("cert-manager.io", "CertificateRequest"): ByCondition(
        "Waiting for certificate request", bad=("Denied", "InvalidRequest"), tolerated_reason="Pending"
    ),
    GroupKind("cert-manager.io", "ClusterIssuer"): ByCondition("Initializing ClusterIssuer"),
    GroupKind("cert-manager.io", "Issuer"): ByCondition("Initializing issuer"),
    GroupKind("external-secrets.io", "ClusterSecretStore"): _plain("ClusterSecretStore"),
    GroupKind("external-secrets.io", "SecretStore"): _plain("SecretStore"),
    GroupKind("external-secrets.io", "PushSecret"): _plain("PushSecret"),
    GroupKind("karpenter.k8s.aws", "EC2NodeClass"): ByCondition(
        "Waiting for EC2NodeClass to be ready",
        failing=("SubnetsReady", "SecurityGroupsReady", "ValidationSucceeded"),
        ready_message="EC2NodeClass is ready",
    ),
    GroupKind("karpenter.sh", "NodePool"): ByCondition("Waiting for NodePool to be ready", failing=("NodeClassReady",)),
    GroupKind("kafka.strimzi.io", "Kafka"): _strimzi("Waiting for Kafka Cluster", tolerated_reason="Creating"),
    GroupKind("kafka.strimzi.io", "KafkaBridge"): _strimzi("Waiting for KafkaBridge"),
    GroupKind("kafka.strimzi.io", "KafkaConnect"): _strimzi("Waiting for Kafka Connect"),
    GroupKind("kafka.strimzi.io", "KafkaConnector"): _strimzi("Waiting for KafkaConnector"),
    GroupKind("kafka.strimzi.io", "KafkaMirrorMaker2"): _strimzi("Waiting for Kafka Mirror Maker 2"),
    GroupKind("kafka.strimzi.io", "KafkaTopic"): _strimzi("Waiting for Kafka Topic"),
    GroupKind("kafka.strimzi.io", "KafkaUser"): _strimzi("Waiting for Kafka User"),
    GroupKind("trust.cert-manager.io", "Bundle"): ByCondition("Waiting for Bundle to be synced", good=("Synced",)),
}


@dataclass(frozen=True, slots=True)
class ByPhase:
    """
    Judge by the phase at a path of the status; an unknown phase means Progressing.

    ``reason`` is the path of the message in the status, where there is one; else the phase is the message.
    """

    good: frozenset[str]
    bad: frozenset[str] = frozenset({"Failed"})
    stopped: frozenset[str] = frozenset()
    at: tuple[str, ...] = ("phase",)
    reason: tuple[str, ...] = ("message",)

    def __call__(self, live: Manifest) -> HealthStatus:
        """Judge a live object; one whose spec is paused is stopped on purpose."""
        # Of Cluster API: a paused object keeps the phase that it had.
        if spec_of(live).get("paused") is True:
            return suspended(f"{live.get('kind')} is paused")
        word = text(live, "status", *self.at)
        if not word:
            return progressing(f"Waiting for {live.get('kind')}")
        detail = text(live, "status", *self.reason) or word
        if word in self.good:
            return healthy(detail)
        if word in self.bad:
            return degraded(detail)
        return suspended(detail) if word in self.stopped else progressing(detail)


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


# ACME's own words (RFC 8555, section 7.1.6), in a field named state.
_ACME = ByPhase(_words("valid"), _words("invalid expired errored"), at=("state",), reason=("reason",))
_MACHINES = ByPhase(_words("Running"))
_VELERO = ByPhase(
    _words("Completed"),
    _words(
        "Failed FailedValidation FinalizingPartiallyFailed PartiallyFailed WaitingForPluginOperationsPartiallyFailed"
    ),
    reason=("failureReason",),
)

_BY_PHASE: dict[GroupKind, Rule] = {
    GroupKind("acme.cert-manager.io", "Challenge"): _ACME,
    GroupKind("acme.cert-manager.io", "Order"): _ACME,
    GroupKind("cdi.kubevirt.io", "DataVolume"): ByPhase(_words("Succeeded"), stopped=_words("Paused")),
    GroupKind("cluster.x-k8s.io", "Cluster"): ByPhase(_words("Provisioned")),
    GroupKind("cluster.x-k8s.io", "Machine"): _MACHINES,
    GroupKind("cluster.x-k8s.io", "MachineDeployment"): _MACHINES,
    GroupKind("cluster.x-k8s.io", "MachinePool"): _MACHINES,
    GroupKind("flagger.app", "Canary"): ByPhase(_words("Initialized Succeeded")),
    GroupKind("kubevirt.io", "VirtualMachine"): ByPhase(
        _words("Migrating Running"),
        _words(
            "CrashLoopBackOff DataVolumeError ErrImagePull ErrorDataVolumeNotFound ErrorPvcNotFound"
            " ErrorUnschedulable ImagePullBackOff"
        ),
        _words("Paused Stopped"),
        at=("printableStatus",),
    ),
    GroupKind("operators.coreos.com", "CatalogSource"): ByPhase(
        # TRANSIENT_FAILURE is the state of a gRPC connection that tries again, so no state is a failure.
        _words("READY"),
        frozenset(),
        at=("connectionState", "lastObservedState"),
    ),
    GroupKind("operators.coreos.com", "ClusterServiceVersion"): ByPhase(_words("Succeeded")),
    # OLM waits for spec.approved: a person decides.
    GroupKind("operators.coreos.com", "InstallPlan"): ByPhase(_words("Complete"), stopped=_words("RequiresApproval")),
    GroupKind("projectcontour.io", "HTTPProxy"): ByPhase(
        _words("valid"), _words("invalid orphaned"), at=("currentStatus",), reason=("description",)
    ),
    GroupKind("sparkoperator.k8s.io", "SparkApplication"): ByPhase(
        _words("COMPLETED RUNNING"),
        _words("FAILED FAILING SUBMISSION_FAILED"),
        at=("applicationState", "state"),
        reason=("applicationState", "errorMessage"),
    ),
    GroupKind("velero.io", "Backup"): _VELERO,
    GroupKind("velero.io", "BackupStorageLocation"): ByPhase(_words("Available"), _words("Unavailable")),
    GroupKind("velero.io", "Restore"): _VELERO,
    GroupKind("velero.io", "Schedule"): ByPhase(_words("Enabled"), _words("FailedValidation")),
}


_BY_GROUP = {
    "": ("ConfigMap", "Endpoints", "LimitRange", "PodTemplate", "ResourceQuota", "Secret", "ServiceAccount"),
    "admissionregistration.k8s.io": (
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ),
    "apps": ("ControllerRevision",),
    "argoproj.io": (
        "AnalysisTemplate",
        "AppProject",
        "ClusterAnalysisTemplate",
        "ClusterWorkflowTemplate",
        "WorkflowTemplate",
    ),
    # A Lease changes every few seconds; only its holder knows what that means.
    "coordination.k8s.io": ("Lease",),
    "discovery.k8s.io": ("EndpointSlice",),
    "extensions.istio.io": ("WasmPlugin",),
    "flowcontrol.apiserver.k8s.io": ("FlowSchema", "PriorityLevelConfiguration"),
    "gateway.networking.k8s.io": ("ReferenceGrant",),
    "keda.sh": ("ClusterTriggerAuthentication", "TriggerAuthentication"),
    "monitoring.coreos.com": (
        "AlertmanagerConfig",
        "PodMonitor",
        "Probe",
        "PrometheusRule",
        "ScrapeConfig",
        "ServiceMonitor",
    ),
    "metallb.io": ("IPAddressPool", "L2Advertisement"),
    "networking.istio.io": (
        "DestinationRule",
        "EnvoyFilter",
        "Gateway",
        "ProxyConfig",
        "ServiceEntry",
        "Sidecar",
        "VirtualService",
        "WorkloadEntry",
        "WorkloadGroup",
    ),
    # The status of NetworkPolicy was an alpha field, removed in Kubernetes 1.28.
    "networking.k8s.io": ("IngressClass", "NetworkPolicy"),
    "node.k8s.io": ("RuntimeClass",),
    "notification.toolkit.fluxcd.io": ("Alert", "Provider"),
    "rbac.authorization.k8s.io": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "resource.k8s.io": ("DeviceClass", "ResourceClaimTemplate"),
    "scheduling.k8s.io": ("PriorityClass",),
    "security.istio.io": ("AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"),
    "snapshot.storage.k8s.io": ("VolumeSnapshotClass",),
    "storage.k8s.io": ("CSIDriver", "StorageClass", "VolumeAttributesClass"),
    "telemetry.istio.io": ("Telemetry",),
    "traefik.io": (
        "IngressRoute",
        "IngressRouteTCP",
        "IngressRouteUDP",
        "Middleware",
        "MiddlewareTCP",
        "ServersTransport",
        "TLSOption",
        "TLSStore",
        "TraefikService",
    ),
}

ALWAYS_HEALTHY = frozenset(GroupKind(group, kind) for group, kinds in _BY_GROUP.items() for kind in kinds)

RULES: dict[GroupKind, Rule] = {**_BY_CONDITION, **_BY_PHASE}
