"""Kinds whose health is one condition: a table of the condition, and of the message before it appears."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.health.fields import condition, conditions, message, text
from gitsync.health.rules import Rule, degraded, healthy, progressing
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
        found = conditions(live)
        busy = condition(found, self.first) if self.first else None
        if busy is not None and busy.get("status") == "True":
            return progressing(message(busy))
        for each in found:
            status = each.get("status")
            if self.tolerated_reason and each.get("reason") == self.tolerated_reason:
                continue
            if each.get("type") in self.bad and status == "True":
                return degraded(message(each))
            if each.get("type") in self.good and status == "True":
                return healthy(_message_of(each) if self.ready_message is None else self.ready_message)
            if each.get("type") in self.good and status == "False" and self.false_is_degraded:
                return degraded(_message_of(each))
        for each in found:
            if each.get("type") in self.failing and each.get("status") == "False":
                return degraded(message(each))
        return progressing(self.waiting)


def _message_of(each: dict[str, object]) -> str:
    return message(each) or text(each, "reason")


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


RULES: dict[GroupKind, Rule] = {
    GroupKind("argoproj.io", "ApplicationSet"): ByCondition(
        "Waiting for the status to be reported",
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
