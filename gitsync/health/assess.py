"""Assess the health of live objects; with the rules of the built-in kinds without Pods."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from gitsync.errors import InvalidInput
from gitsync.health import tables, vendors, workloads
from gitsync.health.kstatus import assess_generic
from gitsync.health.rules import (
    Rule,
    conditions_of,
    degraded,
    healthy,
    items,
    message,
    progressing,
    text,
    unknown,
)
from gitsync.kube import cel
from gitsync.kube.kinds import CRD, NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, SERVICE
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, group_of, metadata_of
from gitsync.objects.ref import GroupKind, ref_of

_NO_ADDRESS = "Waiting for {} to assign an address; where the cluster has none, use {} or a check in spec.healthChecks"


def _service(live: Manifest) -> HealthStatus:
    """Judge a Service: one that asks for a load balancer waits for its address."""
    # Services of other types have no status of their own.
    waits = text(live, "spec", "type") == "LoadBalancer" and not items(live, "status", "loadBalancer", "ingress")
    return progressing(_NO_ADDRESS.format("a load balancer controller", "another spec.type")) if waits else healthy()


def _ingress(live: Manifest) -> HealthStatus:
    """Judge an Ingress by whether it got an address."""
    if items(live, "status", "loadBalancer", "ingress"):
        return healthy()
    # An Ingress has no conditions: an address is the only sign that a controller took it.
    wanted = text(live, "spec", "ingressClassName")
    controller = f"the controller of IngressClass {wanted}" if wanted else "an ingress controller"
    return progressing(_NO_ADDRESS.format(controller, "an ingress class that the cluster has"))


def _claim(live: Manifest) -> HealthStatus:
    """Judge a PersistentVolumeClaim by its phase."""
    phase = text(live, "status", "phase")
    if phase == "Bound":
        return healthy()
    if phase == "Pending":
        storage_class = text(live, "spec", "storageClassName")
        source = f"StorageClass {storage_class}" if storage_class else "the default StorageClass"
        return progressing(f"Waiting for a volume of {source}; one that waits for its first consumer needs a pod first")
    # Lost never ends by itself: the data is gone with the volume.
    return degraded("its PersistentVolume is gone") if phase == "Lost" else unknown()


def _api_service(live: Manifest) -> HealthStatus:
    """Judge an APIService by whether it is available."""
    for condition in conditions_of(live):
        if condition.get("type") == "Available":
            detail = f"{text(condition, 'reason')}: {message(condition)}"
            return healthy(detail) if condition.get("status") == "True" else progressing(detail)
    return progressing("Waiting to be processed")


_AUTOSCALER_FAILURES = frozenset(
    {
        ("AbleToScale", "FailedGetScale"),
        ("AbleToScale", "FailedUpdateScale"),
        # Other failures of ScalingActive, such as a missing custom metric, end when the workload has run for a while.
        ("ScalingActive", "FailedGetResourceMetric"),
        ("ScalingActive", "InvalidSelector"),
    }
)


def _autoscaler(live: Manifest) -> HealthStatus:
    """Judge a HorizontalPodAutoscaler by its conditions, which ``autoscaling/v1`` keeps in an annotation."""
    conditions = conditions_of(live)
    # v1 has no status.conditions; the API server converts them into this annotation.
    if live.get("apiVersion") == "autoscaling/v1":
        try:
            kept = orjson.loads(annotations_of(live).get("autoscaling.alpha.kubernetes.io/conditions") or "[]")
        except orjson.JSONDecodeError as error:
            return unknown(f"conditions annotation: {error}")
        conditions = items({"conditions": kept}, "conditions")
    for condition in conditions:
        if (condition.get("type"), condition.get("reason")) in _AUTOSCALER_FAILURES:
            return degraded(message(condition))
        # ScalingLimited True means that a bound of the spec holds, which is what the user wrote.
        if condition.get("type") in ("AbleToScale", "ScalingLimited") and condition.get("status") == "True":
            return healthy(message(condition))
    return progressing("Waiting to Autoscale")


def _disruption_budget(live: Manifest) -> HealthStatus:
    """Judge a PodDisruptionBudget by its conditions; too few pods for it may be on purpose."""
    result = progressing("Waiting for status")
    for condition in conditions_of(live):
        detail = f"PodDisruptionBudget has {text(condition, 'reason')}"
        # A budget is often applied before its Pods, and some workloads are scaled below it on purpose.
        if condition.get("status") == "False" and condition.get("reason") != "InsufficientPods":
            return degraded(detail)
        result = healthy(detail)
    return result


def _crd(live: Manifest) -> HealthStatus:
    """Judge a CustomResourceDefinition by whether its names and schema are accepted."""
    if metadata_of(live).get("deletionTimestamp"):
        return progressing("CRD is terminating")
    if not conditions_of(live):
        return progressing("Status conditions not found")
    by_type = {(text(condition, "type"), text(condition, "status")): condition for condition in conditions_of(live)}
    if ("Terminating", "True") in by_type:
        return progressing(f"CRD is terminating: {message(by_type['Terminating', 'True'])}")
    if ("NamesAccepted", "False") in by_type:
        return degraded(f"CRD names have not been accepted: {message(by_type['NamesAccepted', 'False'])}")
    if ("Established", "True") not in by_type:
        pending = by_type.get(("Established", "False"))
        # The API server sets Established False with Installing for about five seconds before it serves a new kind.
        if pending is None or pending.get("reason") == "Installing":
            return progressing("CRD is being installed")
        return degraded("CRD is not established")
    # The kind is served, yet pruning and defaults do not work on it.
    if ("NonStructuralSchema", "True") in by_type:
        return degraded(f"Schema violations found: {message(by_type['NonStructuralSchema', 'True'])}")
    return healthy("CRD is healthy")


def _namespace(live: Manifest) -> HealthStatus:
    """Judge a Namespace by its phase."""
    return progressing("Terminating") if text(live, "status", "phase") == "Terminating" else healthy()


def _exists(live: Manifest) -> HealthStatus:
    """Judge a kind that has no work of its own: it is healthy once it exists, unless its status reports otherwise."""
    # Some of these kinds get a status from an optional controller, such as policies of Gatekeeper or Istio.
    detail = assess_generic(live) if "status" in live else healthy()
    return healthy() if detail.health is Health.UNKNOWN else detail


_WORKLOADS: dict[GroupKind, Rule] = {
    GroupKind("apps", "Deployment"): workloads.deployment,
    GroupKind("apps", "StatefulSet"): workloads.stateful_set,
    GroupKind("apps", "DaemonSet"): workloads.daemon_set,
    GroupKind("apps", "ReplicaSet"): workloads.replica_set,
    GroupKind("batch", "Job"): workloads.job,
}
_BUILT_IN: dict[GroupKind, Rule] = {
    **_WORKLOADS,
    POD: workloads.pod,
    SERVICE: _service,
    PERSISTENT_VOLUME_CLAIM: _claim,
    NAMESPACE: _namespace,
    GroupKind("batch", "CronJob"): workloads.cron_job,
    GroupKind("networking.k8s.io", "Ingress"): _ingress,
    GroupKind("extensions", "Ingress"): _ingress,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    GroupKind("apiregistration.k8s.io", "APIService"): _api_service,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    CRD: _crd,
}
_RULES: dict[GroupKind, Rule] = {
    # Later rows win: a kind that has a rule of its own may be in the list as well.
    **dict.fromkeys(tables.ALWAYS_HEALTHY, _exists),
    **_BUILT_IN,
    **tables.RULES,
    **vendors.RULES,
}


def assess(live: Manifest, *, related: Sequence[Manifest] = ()) -> HealthStatus:
    """
    Return the health of a live object and its reason.

    ``related`` are the objects that it owns, such as ReplicaSets and Pods: a workload that is not healthy takes its
    reason from its failing pods. Without a rule and without a known condition an object is Unknown, not Healthy.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    of = kind_of(live)
    status = rule_for(of)(live)
    # Only workloads: a Service or claim shares Pods with others, and their trouble is not its own.
    return workloads.with_pods(status, live, related) if of in _WORKLOADS else status


def kind_of(live: Manifest) -> GroupKind:
    """Return the kind of a live object."""
    return GroupKind(group_of(str(live.get("apiVersion") or "")), str(live.get("kind") or ""))


def rule_for(of: GroupKind) -> Rule:
    """Return the rule for a kind, else that of its group; neither applies to objects that are being deleted."""
    rule = _RULES.get(of)
    if rule is not None:
        return rule
    # Providers define kinds without end, in groups such as s3.aws.upbound.io, all with the same conditions.
    for domain, group_rule in vendors.GROUP_RULES.items():
        if of.group.endswith(f".{domain}"):
            return group_rule
    return assess_generic


def pending_deletion(live: Manifest) -> HealthStatus:
    """Return the health of an object that is being deleted, with the finalizers that block it."""
    finalizers = metadata_of(live).get("finalizers") or ()
    held = f"; blocked by finalizers: {', '.join(map(str, finalizers))}" if finalizers else ""
    return progressing(f"Pending deletion{held}")


def assess_by(check: HealthCheck, live: Manifest) -> HealthStatus:
    """
    Return the health of a live object by an Application's check.

    An expression that cannot be evaluated, such as one on a status that is still absent, is not true. Raise
    InvalidInput for one that is not valid CEL.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    # A failure wins: an object may be ready and failing at once while it restarts.
    if check.degraded and _holds(check.degraded, live):
        return degraded(f"failed: {check.degraded}")
    if _holds(check.healthy, live):
        return healthy()
    return progressing(f"not yet: {check.healthy}")


_MOST_WORK = 16 << 20
"""Bytes that a check may read, see ``work_of``: half a second at most, in which all Applications wait."""


def _holds(expression: str, live: Manifest) -> bool:
    if cel.work_of(expression, live) > _MOST_WORK:
        raise InvalidInput(
            f"{expression!r} reads too much of {ref_of(live)}, which is large, in nested or long iterations",
            location="spec.healthChecks",
            hint="iterate over fewer items, or compare a field",
        )
    try:
        return cel.holds(expression, live)
    except ValueError as error:
        raise InvalidInput(f"{expression!r} is not valid CEL: {error}", location="spec.healthChecks") from error
