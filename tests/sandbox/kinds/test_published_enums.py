"""The values that the sandbox accepts are those of the published OpenAPI, except where the API server accepts fewer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gitsync.kube.openapi import schemas
from tests.sandbox.kinds.factories import job, of, pod_spec, refused, workload

UNKNOWN = "unknown-value"
PORT = {"port": 80}
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}


def pod(**members: Any) -> dict[str, Any]:
    return of("v1", "Pod", spec={**pod_spec(), **members})


def container(**members: Any) -> dict[str, Any]:
    return of("v1", "Pod", spec=pod_spec(**members))


def service(**members: Any) -> dict[str, Any]:
    return of("v1", "Service", spec={"ports": [PORT], **members})


def toleration(**members: Any) -> dict[str, Any]:
    return pod(tolerations=[{"key": "a", **members}])


def spread(**members: Any) -> dict[str, Any]:
    base = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    return pod(topologySpreadConstraints=[{**base, **members}])


def claim(**members: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": "1Gi"}}
    return of("v1", "PersistentVolumeClaim", spec={"accessModes": ["ReadWriteOnce"], "resources": resources, **members})


def storage_class(**members: Any) -> dict[str, Any]:
    return of("storage.k8s.io/v1", "StorageClass", provisioner="example.com/x", **members)


def webhook(**members: Any) -> dict[str, Any]:
    hook = {
        "name": "a.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://example.com"},
        "rules": [RULE],
        **members,
    }
    return of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", webhooks=[hook])


SAME = {
    "core.v1.PodSpec.restartPolicy": pod(restartPolicy=UNKNOWN),
    "core.v1.PodSpec.dnsPolicy": pod(dnsPolicy=UNKNOWN),
    "core.v1.PodSpec.preemptionPolicy": pod(preemptionPolicy=UNKNOWN),
    "core.v1.PodSecurityContext.fsGroupChangePolicy": pod(securityContext={"fsGroupChangePolicy": UNKNOWN}),
    "core.v1.Toleration.effect": toleration(operator="Exists", effect=UNKNOWN),
    "core.v1.TopologySpreadConstraint.whenUnsatisfiable": spread(whenUnsatisfiable=UNKNOWN),
    "core.v1.TopologySpreadConstraint.nodeTaintsPolicy": spread(nodeTaintsPolicy=UNKNOWN),
    "core.v1.TopologySpreadConstraint.nodeAffinityPolicy": spread(nodeAffinityPolicy=UNKNOWN),
    "core.v1.HostPathVolumeSource.type": pod(volumes=[{"name": "v", "hostPath": {"path": "/a", "type": UNKNOWN}}]),
    "core.v1.Container.imagePullPolicy": container(imagePullPolicy=UNKNOWN),
    "core.v1.Container.terminationMessagePolicy": container(terminationMessagePolicy=UNKNOWN),
    "core.v1.ContainerPort.protocol": container(ports=[{"containerPort": 80, "protocol": UNKNOWN}]),
    "core.v1.SecurityContext.procMount": container(securityContext={"procMount": UNKNOWN}),
    "core.v1.SeccompProfile.type": container(securityContext={"seccompProfile": {"type": UNKNOWN}}),
    "core.v1.HTTPGetAction.scheme": container(livenessProbe={"httpGet": {"path": "/", "port": 80, "scheme": UNKNOWN}}),
    "core.v1.ServiceSpec.type": service(type=UNKNOWN),
    "core.v1.ServiceSpec.sessionAffinity": service(sessionAffinity=UNKNOWN),
    "core.v1.ServiceSpec.ipFamilyPolicy": service(ipFamilyPolicy=UNKNOWN),
    "core.v1.ServiceSpec.internalTrafficPolicy": service(internalTrafficPolicy=UNKNOWN),
    "core.v1.ServiceSpec.externalTrafficPolicy": service(type="NodePort", externalTrafficPolicy=UNKNOWN),
    "core.v1.ServicePort.protocol": service(ports=[{**PORT, "protocol": UNKNOWN}]),
    "core.v1.PersistentVolumeClaimSpec.accessModes": claim(accessModes=[UNKNOWN]),
    "core.v1.PersistentVolumeClaimSpec.volumeMode": claim(volumeMode=UNKNOWN),
    "apps.v1.DeploymentStrategy.type": workload("Deployment", strategy={"type": UNKNOWN}),
    "apps.v1.DaemonSetUpdateStrategy.type": workload("DaemonSet", updateStrategy={"type": UNKNOWN}),
    "batch.v1.JobSpec.completionMode": job(completionMode=UNKNOWN),
    "batch.v1.JobSpec.podReplacementPolicy": job(podReplacementPolicy=UNKNOWN),
    "storage.v1.StorageClass.volumeBindingMode": storage_class(volumeBindingMode=UNKNOWN),
    "admissionregistration.v1.ValidatingWebhook.failurePolicy": webhook(failurePolicy=UNKNOWN),
    "admissionregistration.v1.ValidatingWebhook.matchPolicy": webhook(matchPolicy=UNKNOWN),
    "admissionregistration.v1.RuleWithOperations.scope": webhook(rules=[{**RULE, "scope": UNKNOWN}]),
    "admissionregistration.v1.RuleWithOperations.operations": webhook(rules=[{**RULE, "operations": [UNKNOWN]}]),
}
FEWER = {
    "core.v1.Toleration.operator": (toleration(operator=UNKNOWN), {"Gt", "Lt"}),
    "core.v1.ServiceSpec.ipFamilies": (service(ipFamilies=[UNKNOWN]), {""}),
    "storage.v1.StorageClass.reclaimPolicy": (storage_class(reclaimPolicy=UNKNOWN), {"Recycle"}),
    "admissionregistration.v1.ValidatingWebhook.sideEffects": (webhook(sideEffects=UNKNOWN), {"Some", "Unknown"}),
}


@pytest.mark.parametrize("member", SAME)
def test_accepted_values_are_the_published_ones(member: str) -> None:
    assert supported(SAME[member]) == published(member)


@pytest.mark.parametrize("member", FEWER)
def test_some_published_values_are_rejected(member: str) -> None:
    manifest, rejected = FEWER[member]
    assert supported(manifest) == published(member) - rejected
    assert rejected < published(member)


def published(member: str) -> set[str]:
    name, _, last = member.rpartition(".")
    schema = schemas()[f"io.k8s.api.{name}"]["properties"][last]
    return set(schema.get("enum") or schema["items"]["enum"])


def supported(manifest: dict[str, Any]) -> set[str]:
    """Return the values that the rejection lists."""
    (text,) = [text for _, text in refused(manifest) if UNKNOWN in text and "supported values" in text]
    return set(re.findall(r'"([^"]*)"', text.split("supported values: ")[1]))
