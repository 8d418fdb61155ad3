"""Manifests of every built-in kind that users keep in Git, and one manual edit of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitsync.objects.manifest import Manifest

LABELS = {"app": "web"}
POD: dict[str, Any] = {"containers": [{"name": "web", "image": "web:1", "env": [{"name": "MODE", "value": "a"}]}]}


@dataclass(frozen=True, slots=True)
class Sample:
    """A manifest, and a merge patch by another field manager that makes it drift."""

    manifest: Manifest
    edit: dict[str, Any]
    api: str
    is_global: bool = False

    @property
    def kind(self) -> str:
        """The kind of the manifest."""
        return str(self.manifest["kind"])

    @property
    def name(self) -> str:
        """The name of the manifest."""
        return str(self.manifest["metadata"]["name"])


def manifest(api: str, kind: str, name: str, **members: Any) -> Manifest:
    """Return a manifest with a label, which Git declares for each sample."""
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": dict(LABELS)}, **members}


def config_map(name: str, **data: str) -> Manifest:
    """Return a ConfigMap."""
    return manifest("v1", "ConfigMap", name, data=data)


def deployment(name: str = "web", replicas: int | None = 2, image: str = "web:1", **template: Any) -> Manifest:
    """Return a Deployment; ``replicas`` None leaves the field to others."""
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": image}], **template},
        },
    }
    return manifest("apps/v1", "Deployment", name, spec=spec if replicas is None else {"replicas": replicas, **spec})


def job(name: str, hook: str = "", image: str = "tool:1", **options: str) -> Manifest:
    """Return a Job; ``hook`` makes it one of that phase, and ``options`` are further annotations of gitsync."""
    annotations = {"hook": hook, **options} if hook else options
    pod = {"restartPolicy": "Never", "containers": [{"name": "tool", "image": image}]}
    made = manifest("batch/v1", "Job", name, spec={"backoffLimit": 0, "template": {"spec": pod}})
    made["metadata"]["annotations"] = {
        f"gitsync.dev/{key.replace('_', '-')}": value for key, value in annotations.items()
    }
    return made


def with_wave(wave: int, made: Manifest) -> Manifest:
    """Return a manifest with a sync wave."""
    annotations = {**made["metadata"].get("annotations", {}), "gitsync.dev/sync-wave": str(wave)}
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def definition(group: str, kind: str = "Widget", scope: str = "Namespaced", **members: Any) -> Manifest:
    """Return a CustomResourceDefinition with ``spec.size``; ``members`` are further ones of its spec."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    spec = {"group": group, "scope": scope, "names": names, "versions": [version], **members}
    return manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def _sample(
    api: str, kind: str, edit: dict[str, Any], /, *, is_global: bool = False, name: str = "web", **members: Any
) -> Sample:
    return Sample(manifest(api, kind, name, **members), edit, api, is_global)


def _template(restart: str = "Always") -> dict[str, Any]:
    return {"metadata": {"labels": LABELS}, "spec": {**POD, "restartPolicy": restart}}


def samples(unique: str) -> dict[str, Sample]:
    """Return the samples by kind; cluster-scoped ones have a name that holds ``unique``."""
    label = {"metadata": {"labels": {"app": "other"}}}
    rbac, whole = "rbac.authorization.k8s.io/v1", f"sample-{unique}"
    admission = "admissionregistration.k8s.io/v1"
    selector = {"matchLabels": LABELS}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
    hook = {
        "name": "check.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/none"},
        "rules": [
            {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
    }
    found = [
        _sample("v1", "ConfigMap", {"data": {"a": "2"}}, data={"a": "1"}),
        _sample("v1", "Secret", {"data": {"a": "Mg=="}}, stringData={"a": "1"}),
        _sample(
            "v1",
            "Service",
            {"spec": {"ports": [{"port": 80, "targetPort": 9}]}},
            spec={"selector": LABELS, "ports": [{"port": 80, "targetPort": 8080}]},
        ),
        _sample("v1", "ServiceAccount", label, automountServiceAccountToken=False),
        _sample("v1", "Pod", label, spec=POD),
        _sample(
            "v1",
            "PersistentVolumeClaim",
            label,
            spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        ),
        _sample(
            "v1",
            "LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "3"}}]}},
            spec={"limits": [{"type": "Container", "max": {"cpu": "2000m"}, "default": {"cpu": "500m"}}]},
        ),
        _sample(
            "v1",
            "ResourceQuota",
            {"spec": {"hard": {"pods": "9"}}},
            spec={"hard": {"pods": "50", "requests.cpu": "4000m"}},
        ),
        _sample(
            "v1",
            "Endpoints",
            label,
            name="external",
            subsets=[{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
        ),
        _sample(
            "v1",
            "ReplicationController",
            {"spec": {"replicas": 2}},
            spec={"replicas": 1, "selector": LABELS, "template": _template()},
        ),
        _sample("v1", "PodTemplate", label, template=_template()),
        _sample("v1", "Namespace", label, is_global=True, name=whole),
        _sample(
            "v1",
            "PersistentVolume",
            {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
            is_global=True,
            name=whole,
            spec={
                "capacity": {"storage": "1024Mi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "none",
                "hostPath": {"path": "/tmp/none"},
            },
        ),
        _sample(
            "apps/v1",
            "Deployment",
            {"spec": {"replicas": 3}},
            spec={"replicas": 2, "selector": selector, "template": _template()},
        ),
        _sample(
            "apps/v1",
            "StatefulSet",
            {"spec": {"replicas": 2}},
            spec={
                "replicas": 1,
                "serviceName": "web",
                "selector": selector,
                "template": _template(),
                "volumeClaimTemplates": [],
            },
        ),
        _sample(
            "apps/v1",
            "DaemonSet",
            {"spec": {"minReadySeconds": 3}},
            spec={"minReadySeconds": 1, "selector": selector, "template": _template()},
        ),
        _sample(
            "apps/v1",
            "ReplicaSet",
            {"spec": {"replicas": 2}},
            spec={"replicas": 1, "selector": selector, "template": _template()},
        ),
        _sample("batch/v1", "Job", label, spec={"template": _template("Never"), "backoffLimit": 2}),
        _sample(
            "batch/v1",
            "CronJob",
            {"spec": {"schedule": "1 1 * * *"}},
            spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": _template("Never")}}},
        ),
        _sample(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {"spec": {"maxReplicas": 7}},
            spec={
                "minReplicas": 1,
                "maxReplicas": 5,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"},
                "metrics": [
                    {
                        "type": "Resource",
                        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
                    }
                ],
            },
        ),
        _sample(
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"minAvailable": 2}},
            spec={"minAvailable": 1, "selector": selector},
        ),
        _sample(
            "networking.k8s.io/v1",
            "Ingress",
            {"spec": {"rules": [{"host": "b.example.com"}]}},
            spec={
                "rules": [
                    {
                        "host": "a.example.com",
                        "http": {
                            "paths": [
                                {
                                    "path": "/",
                                    "pathType": "Prefix",
                                    "backend": {"service": {"name": "web", "port": {"number": 80}}},
                                }
                            ]
                        },
                    }
                ]
            },
        ),
        _sample(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"spec": {"policyTypes": ["Ingress", "Egress"]}},
            spec={
                "podSelector": selector,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 80}]}],
            },
        ),
        _sample(
            "networking.k8s.io/v1",
            "IngressClass",
            label,
            is_global=True,
            name=whole,
            spec={"controller": "example.com/none"},
        ),
        _sample(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"ports": [{"name": "", "port": 81, "protocol": "TCP"}]},
            addressType="IPv4",
            endpoints=[{"addresses": ["192.0.2.1"]}],
            ports=[{"name": "", "port": 80, "protocol": "TCP"}],
        ),
        _sample(
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"leaseDurationSeconds": 30}},
            spec={"holderIdentity": "a", "leaseDurationSeconds": 15},
        ),
        _sample(
            rbac, "Role", {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}, rules=rules
        ),
        _sample(
            rbac,
            "RoleBinding",
            {"subjects": []},
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "web"},
            subjects=[{"kind": "User", "name": "ada"}],
        ),
        _sample(rbac, "ClusterRole", {"rules": []}, is_global=True, name=whole, rules=rules),
        _sample(
            rbac,
            "ClusterRoleBinding",
            {"subjects": []},
            is_global=True,
            name=whole,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            subjects=[{"kind": "User", "name": "ada"}],
        ),
        _sample(
            "storage.k8s.io/v1",
            "StorageClass",
            {"allowVolumeExpansion": True},
            is_global=True,
            name=whole,
            provisioner="example.com/none",
            allowVolumeExpansion=False,
        ),
        _sample(
            "storage.k8s.io/v1",
            "CSIDriver",
            {"spec": {"podInfoOnMount": True}},
            is_global=True,
            name=f"{whole}.example.com",
            spec={"attachRequired": False, "podInfoOnMount": False},
        ),
        _sample(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"description": "edited"},
            is_global=True,
            name=whole,
            value=10,
            description="declared",
        ),
        _sample("node.k8s.io/v1", "RuntimeClass", label, is_global=True, name=whole, handler="none"),
        _sample(
            admission,
            "ValidatingWebhookConfiguration",
            {"webhooks": [{**hook, "timeoutSeconds": 3}]},
            is_global=True,
            name=whole,
            webhooks=[{**hook, "timeoutSeconds": 5}],
        ),
        _sample(
            admission,
            "MutatingWebhookConfiguration",
            {"webhooks": [{**hook, "timeoutSeconds": 3}]},
            is_global=True,
            name=whole,
            webhooks=[{**hook, "timeoutSeconds": 5}],
        ),
        _sample(
            admission,
            "ValidatingAdmissionPolicy",
            {"spec": {"failurePolicy": "Fail"}},
            is_global=True,
            name=whole,
            spec={
                "failurePolicy": "Ignore",
                "matchConstraints": {"resourceRules": hook["rules"]},
                "validations": [{"expression": "true"}],
            },
        ),
        _sample(
            admission,
            "ValidatingAdmissionPolicyBinding",
            {"spec": {"policyName": "other"}},
            is_global=True,
            name=whole,
            spec={"policyName": "none", "validationActions": ["Warn"]},
        ),
        _sample(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            label,
            is_global=True,
            name=f"widgets.c{unique}.example.com",
            spec={
                "group": f"c{unique}.example.com",
                "scope": "Namespaced",
                "names": {"kind": "Widget", "plural": "widgets"},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "properties": {"size": {"type": "integer", "default": 1}},
                                    }
                                },
                            }
                        },
                    }
                ],
            },
        ),
    ]
    return {sample.kind: sample for sample in found}


KINDS = tuple(samples("x"))
