"""Health of what keeps data: databases, message brokers, volume snapshots and External Secrets."""

from __future__ import annotations

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    items,
    message,
    number,
    progressing,
    suspended,
    text,
    unknown,
)
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.ref import GroupKind


def zalando_postgres(live: Manifest) -> HealthStatus:
    """Judge a Zalando postgresql by the phase in its status."""
    word = text(live, "status", "PostgresClusterStatus")
    if not word:
        return progressing("Waiting for postgres cluster status...")
    if word == "Running":
        return healthy(word)
    return progressing(word) if word in ("Creating", "Updating") else degraded(word)


_CNPG_PHASES = {
    "Cluster in healthy state": Health.HEALTHY,
    **dict.fromkeys(
        (
            "Setting up primary",
            "Creating a new replica",
            "Upgrading cluster",
            "Waiting for the instances to become active",
            "Promoting to primary cluster",
        ),
        Health.PROGRESSING,
    ),
    **dict.fromkeys(
        (
            "Switchover in progress",
            "Failing over",
            "Upgrading Postgres major version",
            "Cluster upgrade delayed",
            "Waiting for user action",
            "Primary instance is being restarted in-place",
            "Primary instance is being restarted without a switchover",
            "Cluster cannot execute instance online upgrade due to missing architecture binary",
            "Online upgrade in progress",
            "Applying configuration",
        ),
        Health.DEGRADED,
    ),
    **dict.fromkeys(
        (
            "Unable to create required cluster objects",
            "Cluster cannot proceed to reconciliation due to an unknown plugin being required",
            "Cluster has incomplete or invalid image catalog",
            "Cluster is unrecoverable and needs manual intervention",
        ),
        Health.SUSPENDED,
    ),
}


def cnpg_cluster(live: Manifest) -> HealthStatus:
    """Judge a CloudNativePG Cluster: stopped on purpose, hibernated, or by its phase."""
    annotations = annotations_of(live)
    reason = text(live, "status", "phaseReason")
    if "disabled" in (annotations.get("cnpg.io/reconciliationLoop"), annotations.get("cnpg.io/reconciliation")):
        return suspended("Cluster reconciliation is suspended")
    if at(live, "status", "conditions") is None:
        return progressing(reason)
    hibernation = condition_of(conditions_of(live), "cnpg.io/hibernation")
    if hibernation is not None:
        detail = message(hibernation)
        return suspended(detail) if hibernation.get("status") == "True" else degraded(detail)
    return HealthStatus(_CNPG_PHASES.get(text(live, "status", "phase"), Health.UNKNOWN), reason)


def elasticsearch(live: Manifest) -> HealthStatus:
    """Judge an Elasticsearch by its nodes, its phase and the colour of the cluster."""
    available = at(live, "status", "availableNodes")
    phase = text(live, "status", "phase")
    wanted = sum(number(node_set, "count") for node_set in items(live, "spec", "nodeSets"))
    if isinstance(available, int) and available < wanted:
        return progressing(f"The desired amount of availableNodes is {wanted} but the current amount is {available}")
    colour = text(live, "status", "health")
    if available == wanted and colour:
        if phase in ("ApplyingChanges", "MigratingData"):
            return progressing(f"Elasticsearch phase is {phase}")
        if phase == "Invalid":
            return degraded("Elasticsearch phase is Invalid")
        if phase == "Ready" and colour == "green":
            return healthy("Elasticsearch Cluster status is Green")
        if phase == "Ready" and colour in ("yellow", "red"):
            verdict = progressing if colour == "yellow" else degraded
            state = f"Elasticsearch Cluster status is {colour.capitalize()}."
            return verdict(f"{state} Check the status of indices, replicas and shards")
    return unknown("Elasticsearch Cluster status is unknown")


def rabbitmq_cluster(live: Manifest) -> HealthStatus:
    """Judge a RabbitmqCluster by what its operator could reconcile and how many replicas are ready."""
    by_type = {text(condition, "type"): condition for condition in conditions_of(live)}
    reconciled = by_type.get("ReconcileSuccess", {})
    cluster = by_type.get("ClusterAvailable", {})
    replicas = by_type.get("AllReplicasReady", {})
    if reconciled.get("status") == "False":
        return degraded(message(reconciled))
    if "Unknown" in (cluster.get("status"), replicas.get("status")):
        return progressing("Waiting for RabbitMQ cluster readiness (conditions unknown)")
    if replicas.get("status") == "False" and replicas.get("reason") == "ScaledToZero" and _is_zero(live):
        return suspended("RabbitmqCluster is scaled to 0 replicas")
    if cluster.get("status") == "False":
        return progressing("Waiting for RabbitMQ cluster formation")
    if replicas.get("status") == "False":
        return progressing("Waiting for RabbitMQ instances ready")
    if cluster.get("status") == replicas.get("status") == "True":
        return healthy("RabbitMQ cluster ready")
    return progressing("Waiting for RabbitMQ Operator")


def _is_zero(live: Manifest) -> bool:
    return bool(at(live, "spec", "replicas") == 0)


def volume_snapshot(live: Manifest) -> HealthStatus:
    """Judge a VolumeSnapshot or its content."""
    if at(live, "status", "readyToUse") is True:
        return healthy("Ready to use")
    if at(live, "status", "error") is not None:
        return degraded(text(live, "status", "error", "message"))
    return progressing("Waiting for status")


def external_secret(live: Manifest) -> HealthStatus:
    """Judge an ExternalSecret by Ready; one refreshed on change waits until Ready is newer than the refresh."""
    for condition in conditions_of(live):
        if condition.get("type") != "Ready":
            continue
        refreshed = text(live, "status", "refreshTime")
        if text(live, "spec", "refreshPolicy") == "OnChange" and text(condition, "lastTransitionTime") < refreshed:
            continue
        if condition.get("status") in ("True", "False"):
            return healthy(message(condition)) if condition["status"] == "True" else degraded(message(condition))
    return progressing("Waiting for ExternalSecret")


def cluster_external_secret(live: Manifest) -> HealthStatus:
    """Judge a ClusterExternalSecret by its newest condition, the last of the list."""
    last = (conditions_of(live) or [{}])[-1]
    if last.get("status") == "True" and last.get("type") == "Ready":
        return healthy(message(last))
    if last.get("status") == "True" and last.get("type") in ("PartiallyReady", "NotReady"):
        return degraded(message(last))
    return progressing("Waiting for ClusterExternalSecret")


RULES: dict[GroupKind, Rule] = {
    GroupKind("acid.zalan.do", "postgresql"): zalando_postgres,
    GroupKind("postgresql.cnpg.io", "Cluster"): cnpg_cluster,
    GroupKind("elasticsearch.k8s.elastic.co", "Elasticsearch"): elasticsearch,
    GroupKind("rabbitmq.com", "RabbitmqCluster"): rabbitmq_cluster,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshot"): volume_snapshot,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): volume_snapshot,
    GroupKind("external-secrets.io", "ExternalSecret"): external_secret,
    GroupKind("external-secrets.io", "ClusterExternalSecret"): cluster_external_secret,
}
