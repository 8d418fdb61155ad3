"""Health of kinds that well-known operators bring: databases, serving, scaling, secrets, storage."""

from __future__ import annotations

import re
from typing import Any

from gitsync.health.fields import condition, conditions, items, message, number, status_of, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended, unknown
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, at
from gitsync.objects.ref import GroupKind


def zalando_postgres(live: Manifest) -> HealthStatus:
    """Judge a Zalando postgresql by the word in its status."""
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
    annotations, reason = annotations_of(live), text(live, "status", "phaseReason")
    if "disabled" in (annotations.get("cnpg.io/reconciliationLoop"), annotations.get("cnpg.io/reconciliation")):
        return suspended("Cluster reconciliation is suspended")
    if at(live, "status", "conditions") is None:
        return progressing(reason)
    hibernation = condition(conditions(live), "cnpg.io/hibernation")
    if hibernation is not None:
        said = message(hibernation)
        return suspended(said) if hibernation.get("status") == "True" else degraded(said)
    return HealthStatus(_CNPG_PHASES.get(text(live, "status", "phase"), Health.UNKNOWN), reason)


def elasticsearch(live: Manifest) -> HealthStatus:
    """Judge an Elasticsearch by its nodes, its phase and the colour of the cluster."""
    available, phase = at(live, "status", "availableNodes"), text(live, "status", "phase")
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
    found = {text(each, "type"): each for each in conditions(live)}
    reconciled = found.get("ReconcileSuccess", {})
    cluster, replicas = found.get("ClusterAvailable", {}), found.get("AllReplicasReady", {})
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


def external_secret(live: Manifest) -> HealthStatus:
    """Judge an ExternalSecret by Ready; one refreshed on change waits until Ready is newer than the refresh."""
    for each in conditions(live):
        if each.get("type") != "Ready":
            continue
        refreshed = text(live, "status", "refreshTime")
        if text(live, "spec", "refreshPolicy") == "OnChange" and text(each, "lastTransitionTime") < refreshed:
            continue
        if each.get("status") in ("True", "False"):
            return healthy(message(each)) if each["status"] == "True" else degraded(message(each))
    return progressing("Waiting for ExternalSecret")


def cluster_external_secret(live: Manifest) -> HealthStatus:
    """Judge a ClusterExternalSecret by its newest condition, the last of the list."""
    last = (conditions(live) or [{}])[-1]
    if last.get("status") == "True" and last.get("type") == "Ready":
        return healthy(message(last))
    if last.get("status") == "True" and last.get("type") in ("PartiallyReady", "NotReady"):
        return degraded(message(last))
    return progressing("Waiting for ClusterExternalSecret")


def node_claim(live: Manifest) -> HealthStatus:
    """Judge a NodeClaim: given up, ready, or how far the node has come."""
    generation, observed = at(live, "metadata", "generation"), at(live, "status", "observedGeneration")
    if generation is not None and observed is not None and generation != observed:
        return progressing("Waiting for NodeClaim spec to be reconciled")
    found = {text(each, "type"): each for each in reversed(conditions(live))}
    if found.get("Disrupting", {}).get("status") == "True":
        return suspended(message(found["Disrupting"]))
    ready = found.get("Ready", {})
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("status") == "False":
        return degraded(message(ready))
    for kind, said in (
        ("Initialized", "Node initialized, waiting for Ready"),
        ("Registered", "Node registered, waiting for initialization"),
        ("Launched", "Node launched, waiting for registration"),
    ):
        if found.get(kind, {}).get("status") == "True":
            return progressing(said)
    return progressing("Waiting for NodeClaim to be launched")


def scaled_object(live: Manifest) -> HealthStatus:
    """Judge a KEDA ScaledObject; running on its fallback is degraded."""
    return _keda(live, "Creating HorizontalPodAutoscaler Object", {("Ready", "False"), ("Fallback", "True")})


def scaled_job(live: Manifest) -> HealthStatus:
    """Judge a KEDA ScaledJob."""
    return _keda(live, "Waiting for ScaledJob", {("Ready", "False"), ("Ready", "Unknown")})


def _keda(live: Manifest, waiting: str, bad: set[tuple[str, str]]) -> HealthStatus:
    signs = {(text(each, "type"), text(each, "status")) for each in conditions(live)}
    telling = bad | {("Ready", "True"), ("Paused", "True")}
    said = next(
        (message(each) for each in reversed(conditions(live)) if (text(each, "type"), text(each, "status")) in telling),
        "",
    )
    if signs & bad:
        return degraded(said)
    if ("Ready", "True") in signs:
        return suspended(said) if ("Paused", "True") in signs else healthy(said)
    return progressing(waiting)


def prometheus(live: Manifest) -> HealthStatus:
    """Judge a Prometheus or Alertmanager by whether its instances are available."""
    available = condition(list(reversed(conditions(live))), "Available")
    if available is None:
        return progressing("Waiting for initialization")
    if available.get("status") == "True":
        return healthy("All instances are available")
    said = message(available) or text(available, "reason")
    return progressing(said) if available.get("reason") == "SomePodsNotReady" else degraded(said)


def otel_collector(live: Manifest) -> HealthStatus:
    """Judge an OpenTelemetryCollector by the replicas that its status counts as ``ready/all``."""
    mode, status = text(live, "spec", "mode"), live.get("status")
    if status is None:
        return progressing("Waiting for OpenTelemetry Collector status")
    counted = at(status, "scale", "statusReplicas")
    if counted is None:
        if mode == "sidecar":
            return healthy("Collector is running in sidecar mode")
        return progressing("Scale status not available")
    match = re.search(r"(\d+)/(\d+)", str(counted), re.ASCII)
    if match is None:
        return progressing(f"Unable to parse replica status: {counted}")
    ready, wanted = int(match[1]), int(match[2])
    if mode == "daemonset" and ready == wanted == 0:
        return healthy("DaemonSet has no eligible nodes (0/0)")
    if ready == 0:
        return degraded("No replicas are ready")
    return healthy("All replicas are ready") if ready == wanted else progressing("Replicas are starting up")


def knative_eventing(live: Manifest) -> HealthStatus:
    """Judge a KnativeEventing."""
    return _knative(live, ("Ready", "InstallSucceeded"), unready=("Ready",))


def knative_serving(live: Manifest) -> HealthStatus:
    """Judge a KnativeServing."""
    good = ("Ready", "InstallSucceeded", "DependenciesInstalled", "DeploymentsAvailable")
    return _knative(live, good, unready=("Ready", "DeploymentsAvailable"))


def _knative(live: Manifest, good: tuple[str, ...], unready: tuple[str, ...]) -> HealthStatus:
    """Healthy when all good conditions are True, Progressing while one is unknown or a telling one is False."""
    kind, found = text(live, "kind"), conditions(live)
    if at(live, "status", "conditions") is None:
        return progressing(f"Waiting for {kind}")
    said = "".join(f"{index}: {text(e, 'type')} | {text(e, 'status')}\n" for index, e in enumerate(found, 1))
    if any(e.get("status") == "Unknown" or (e.get("type") in unready and e.get("status") == "False") for e in found):
        return progressing(said)
    are_true = {text(each, "type") for each in found if each.get("status") == "True"}
    return healthy(f"{kind} is healthy.") if are_true.issuperset(good) else degraded(said)


def knative_service(live: Manifest) -> HealthStatus:
    """Judge a Knative Service by its three conditions."""
    if at(live, "status", "conditions") is None:
        return progressing("Waiting for status update.")
    are_true, lines, failed = set(), [], False
    for each in conditions(live):
        if each.get("status") == "True":
            are_true.add(text(each, "type"))
        elif each.get("status") in ("False", "Unknown"):
            failed = failed or each["status"] == "False"
            since = f", since {text(each, 'reason')}." if text(each, "reason") else ""
            said = f" {message(each)}" if message(each) else ""
            lines.append(f"{text(each, 'type')} is {each['status']}{since}{said}\n")
    if failed:
        return degraded("".join(lines))
    if not lines and are_true.issuperset({"ConfigurationsReady", "RoutesReady", "Ready"}):
        return healthy("Knative Service is healthy.")
    return progressing("".join(lines))


def inference_service(live: Manifest) -> HealthStatus:
    """Judge a KServe InferenceService: only its model can fail, its parts become ready or wait."""
    waiting = "Waiting for InferenceService to report status..."
    if at(live, "status", "conditions") is None:
        return progressing(waiting)
    found = conditions(live)
    if (condition(found, "Stopped") or {}).get("status") == "True":
        return suspended("InferenceService is Stopped")
    transition = text(live, "status", "modelStatus", "transitionStatus", default="UpToDate")
    lines = [] if transition == "UpToDate" else [f"0: transitionStatus | {transition}"]
    for index, each in enumerate(found, 1):
        if each.get("type") != "Stopped" and each.get("status") != "True":
            parts = (text(each, "type"), text(each, "status"), text(each, "reason"), message(each))
            lines.append(f"{index}: {' | '.join(part for part in parts if part)}")
    if not lines:
        return healthy("InferenceService is healthy.")
    return (progressing if transition in ("UpToDate", "InProgress") else degraded)(" | ".join(lines))


def volume_snapshot(live: Manifest) -> HealthStatus:
    """Judge a VolumeSnapshot or its content."""
    if at(live, "status", "readyToUse") is True:
        return healthy("Ready to use")
    if at(live, "status", "error") is not None:
        return degraded(text(live, "status", "error", "message"))
    return progressing("Waiting for status")


def crossplane_package(live: Manifest) -> HealthStatus:
    """Judge a Crossplane package by whether it is installed and healthy."""
    if at(live, "status", "conditions") is None:
        return progressing("Waiting for provider to be installed")
    found = {text(each, "type"): each for each in conditions(live)}
    signs: list[dict[str, Any]] = [found.get("Installed", {}), found.get("Healthy", {})]
    said = " ".join(text(each, "reason") for each in signs)
    return healthy(said) if all(each.get("status") == "True" for each in signs) else degraded(said)


_UP_TO_DATE = "Resource is up-to-date."
_NO_STATUS = {
    "crossplane.io": frozenset(
        {
            "Composition",
            "CompositionRevision",
            "DeploymentRuntimeConfig",
            "ClusterProviderConfig",
            "ProviderConfig",
            "ProviderConfigUsage",
            "ControllerConfig",
        }
    ),
    "upbound.io": frozenset({"ClusterProviderConfig", "ProviderConfig", "ProviderConfigUsage"}),
}
_READY = ("Ready", "Healthy", "Offered", "Established", "ValidPipeline", "RevisionHealthy")


def crossplane(live: Manifest) -> HealthStatus:
    """Judge any Crossplane object: settings are well by being there, resources by Synced and Ready."""
    return _managed(live, _NO_STATUS["crossplane.io"], _READY)


def upbound(live: Manifest) -> HealthStatus:
    """Judge any Upbound object, as those of Crossplane."""
    return _managed(live, _NO_STATUS["upbound.io"], ("Ready",))


def _managed(live: Manifest, no_status: frozenset[str], ready: tuple[str, ...]) -> HealthStatus:
    kind = text(live, "kind")
    if live.get("status") is None or (not status_of(live) and kind in no_status):
        return healthy(_UP_TO_DATE)
    if at(live, "status", "conditions") is None:
        if kind in ("ProviderConfig", "ClusterProviderConfig") and at(live, "status", "users") is not None:
            return healthy("Resource is in use.")
        return progressing("Provisioning ...")
    found = conditions(live)
    for each in found:
        if each.get("type") in ("LastAsyncOperation", "Synced") and each.get("status") == "False":
            return degraded(message(each))
    if any(each.get("type") in ready and each.get("status") == "True" for each in found):
        return healthy(_UP_TO_DATE)
    return progressing("Provisioning ...")


RULES: dict[GroupKind, Rule] = {
    GroupKind("acid.zalan.do", "postgresql"): zalando_postgres,
    GroupKind("elasticsearch.k8s.elastic.co", "Elasticsearch"): elasticsearch,
    GroupKind("external-secrets.io", "ClusterExternalSecret"): cluster_external_secret,
    GroupKind("external-secrets.io", "ExternalSecret"): external_secret,
    GroupKind("karpenter.sh", "NodeClaim"): node_claim,
    GroupKind("keda.sh", "ScaledJob"): scaled_job,
    GroupKind("keda.sh", "ScaledObject"): scaled_object,
    GroupKind("monitoring.coreos.com", "Alertmanager"): prometheus,
    GroupKind("monitoring.coreos.com", "Prometheus"): prometheus,
    GroupKind("opentelemetry.io", "OpenTelemetryCollector"): otel_collector,
    GroupKind("operator.knative.dev", "KnativeEventing"): knative_eventing,
    GroupKind("operator.knative.dev", "KnativeServing"): knative_serving,
    GroupKind("pkg.crossplane.io", "Provider"): crossplane_package,
    GroupKind("postgresql.cnpg.io", "Cluster"): cnpg_cluster,
    GroupKind("rabbitmq.com", "RabbitmqCluster"): rabbitmq_cluster,
    GroupKind("serving.knative.dev", "Service"): knative_service,
    GroupKind("serving.kserve.io", "InferenceService"): inference_service,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshot"): volume_snapshot,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): volume_snapshot,
}
GROUP_RULES: dict[str, Rule] = {"crossplane.io": crossplane, "upbound.io": upbound}
"""Rules for every kind of every group below a domain."""
