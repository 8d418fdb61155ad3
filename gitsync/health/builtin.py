"""Health of the built-in kinds without pods: networking, storage, autoscaling, the API itself."""

from __future__ import annotations

import orjson

from gitsync.health.fields import conditions, items, message, text
from gitsync.health.generic import assess_generic
from gitsync.health.rules import degraded, healthy, progressing, unknown
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of

_NO_ADDRESS = "Waiting for {} to assign an address; where the cluster has none, use {} or a check in spec.healthChecks"


def service(live: Manifest) -> HealthStatus:
    """Judge a Service: one that asks for a load balancer waits for its address."""
    waits = text(live, "spec", "type") == "LoadBalancer" and not items(live, "status", "loadBalancer", "ingress")
    return progressing(_NO_ADDRESS.format("a load balancer controller", "another spec.type")) if waits else healthy()


def ingress(live: Manifest) -> HealthStatus:
    """Judge an Ingress by whether it got an address."""
    if items(live, "status", "loadBalancer", "ingress"):
        return healthy()
    wanted = text(live, "spec", "ingressClassName")
    controller = f"the controller of IngressClass {wanted}" if wanted else "an ingress controller"
    return progressing(_NO_ADDRESS.format(controller, "an ingress class that the cluster has"))


def claim(live: Manifest) -> HealthStatus:
    """Judge a PersistentVolumeClaim by its phase."""
    phase = text(live, "status", "phase")
    if phase == "Bound":
        return healthy()
    if phase == "Pending":
        storage_class = text(live, "spec", "storageClassName")
        source = f"StorageClass {storage_class}" if storage_class else "the default StorageClass"
        return progressing(f"Waiting for a volume of {source}; one that waits for its first consumer needs a pod first")
    return degraded("its PersistentVolume is gone") if phase == "Lost" else unknown()


def api_service(live: Manifest) -> HealthStatus:
    """Judge an APIService by whether it is available."""
    for each in conditions(live):
        if each.get("type") == "Available":
            detail = f"{text(each, 'reason')}: {message(each)}"
            return healthy(detail) if each.get("status") == "True" else progressing(detail)
    return progressing("Waiting to be processed")


_AUTOSCALER_FAILURES = frozenset(
    {
        ("AbleToScale", "FailedGetScale"),
        ("AbleToScale", "FailedUpdateScale"),
        ("ScalingActive", "FailedGetResourceMetric"),
        ("ScalingActive", "InvalidSelector"),
    }
)


def autoscaler(live: Manifest) -> HealthStatus:
    """Judge a HorizontalPodAutoscaler by its conditions, which ``autoscaling/v1`` keeps in an annotation."""
    found = conditions(live)
    if live.get("apiVersion") == "autoscaling/v1":
        try:
            kept = orjson.loads(annotations_of(live).get("autoscaling.alpha.kubernetes.io/conditions") or "[]")
        except orjson.JSONDecodeError as error:
            return unknown(f"conditions annotation: {error}")
        found = items({"conditions": kept}, "conditions")
    for each in found:
        if (each.get("type"), each.get("reason")) in _AUTOSCALER_FAILURES:
            return degraded(message(each))
        if each.get("type") in ("AbleToScale", "ScalingLimited") and each.get("status") == "True":
            return healthy(message(each))
    return progressing("Waiting to Autoscale")


def disruption_budget(live: Manifest) -> HealthStatus:
    """Judge a PodDisruptionBudget by its conditions; too few pods for it may be on purpose."""
    result = progressing("Waiting for status")
    for each in conditions(live):
        detail = f"PodDisruptionBudget has {text(each, 'reason')}"
        if each.get("status") == "False" and each.get("reason") != "InsufficientPods":
            return degraded(detail)
        result = healthy(detail)
    return result


def crd(live: Manifest) -> HealthStatus:
    """Judge a CustomResourceDefinition by whether its names and schema are accepted."""
    if metadata_of(live).get("deletionTimestamp"):
        return progressing("CRD is terminating")
    if not conditions(live):
        return progressing("Status conditions not found")
    found = {(text(each, "type"), text(each, "status")): each for each in conditions(live)}
    if ("Terminating", "True") in found:
        return progressing(f"CRD is terminating: {message(found['Terminating', 'True'])}")
    if ("NamesAccepted", "False") in found:
        return degraded(f"CRD names have not been accepted: {message(found['NamesAccepted', 'False'])}")
    if ("Established", "True") not in found:
        pending = found.get(("Established", "False"))
        if pending is None or pending.get("reason") == "Installing":
            return progressing("CRD is being installed")
        return degraded("CRD is not established")
    if ("NonStructuralSchema", "True") in found:
        return degraded(f"Schema violations found: {message(found['NonStructuralSchema', 'True'])}")
    return healthy("CRD is healthy")


def namespace(live: Manifest) -> HealthStatus:
    """Judge a Namespace by its phase."""
    return progressing("Terminating") if text(live, "status", "phase") == "Terminating" else healthy()


def exists(live: Manifest) -> HealthStatus:
    """Judge a kind that has no work of its own: it is healthy once it exists, unless its status reports otherwise."""
    detail = assess_generic(live) if "status" in live else healthy()
    return healthy() if detail.health is Health.UNKNOWN else detail
