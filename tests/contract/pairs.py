"""Pairs of manifests of one object, related by edits that people make: a member is set, changed or left out."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from gitsync.objects.manifest import Manifest
from tests.contract.manifests import Sample, manifest, samples

ABSENT: Final = object()
_PODS: Final = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template", "spec"),
    ),
}
_IMMUTABLE_PODS: Final = frozenset({"Pod", "Job"})
"""The kinds whose Pods cannot be changed."""
_HTTP = {"httpGet": {"path": "/", "port": 80}}
_PATH = {"path": "/", "pathType": "Prefix"}
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}
_LOAD = {"type": "Pods", "pods": {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
_ROLLING = {"type": "RollingUpdate"}

Aspects = dict[str, tuple[Any, ...]]
"""The values that a member may have, besides being absent, by its path with dots."""

_POD: Final[Aspects] = {
    "volumes": (
        [{"name": "v"}],
        [{"name": "v", "configMap": {"name": "c", "optional": True}}],
        [{"name": "v", "secret": {"secretName": "s", "optional": True}}],
        [{"name": "v", "emptyDir": {"medium": "Memory"}}],
        [{"name": "v", "hostPath": {"path": "/tmp"}}],
        [{"name": "v", "projected": {"sources": [{"configMap": {"name": "c", "optional": True}}]}}],
        [{"name": "u"}, {"name": "v", "downwardAPI": {"items": []}}],
    ),
    "containers.0.env": (
        [{"name": "A", "value": "1"}],
        [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}}],
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        [{"name": "A"}, {"name": "B", "value": "2"}],
    ),
    "containers.0.livenessProbe": (
        _HTTP,
        {"exec": {"command": ["true"]}},
        {"tcpSocket": {"port": 80}},
        {"grpc": {"port": 80}, "periodSeconds": 3},
        {**_HTTP, "failureThreshold": 9},
    ),
    "containers.0.lifecycle": (
        {"preStop": _HTTP},
        {"preStop": {"exec": {"command": ["true"]}}},
        {"preStop": {"sleep": {"seconds": 3}}},
    ),
    "containers.0.ports": (
        [{"containerPort": 80}],
        [{"containerPort": 80, "name": "web"}],
        [{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}],
    ),
    "containers.0.image": ("web", "web:latest", "web:2", f"web@sha256:{'a' * 64}"),
    "containers.0.imagePullPolicy": ("Always", "Never", "IfNotPresent"),
    "containers.0.resources": (
        {"limits": {"cpu": "1"}},
        {"requests": {"cpu": "500m"}},
        {"limits": {"memory": "1024Mi"}, "requests": {"memory": "512Mi"}},
    ),
    "containers.0.securityContext": (
        {"seccompProfile": {"type": "RuntimeDefault"}},
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "p"}},
        {"runAsUser": 1, "capabilities": {"drop": ["ALL"]}},
    ),
    "securityContext": ({"runAsNonRoot": True}, {"fsGroup": 1}),
    "hostNetwork": (True, False),
    "dnsPolicy": ("Default", "ClusterFirstWithHostNet"),
    "terminationGracePeriodSeconds": (5, 30),
    "schedulerName": ("other", "default-scheduler"),
    "nodeSelector": ({"a": "1"}, {"b": "2"}),
    "tolerations": ([{"key": "a", "operator": "Exists"}], [{"key": "a", "value": "1", "effect": "NoExecute"}]),
    "topologySpreadConstraints": (
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
    ),
    "automountServiceAccountToken": (True, False),
    "enableServiceLinks": (True, False),
    "hostname": ("a", "b"),
    "serviceAccountName": ("deployer", "default"),
    "serviceAccount": ("deployer",),
}
_STRATEGY = (_ROLLING, {**_ROLLING, "rollingUpdate": {"maxUnavailable": 1}})
_ASPECTS: Final[dict[str, Aspects]] = {
    "ConfigMap": {"data": ({"a": "2"}, {"b": "1"}), "binaryData": ({"x": "YQ=="},), "immutable": (False,)},
    "Secret": {"data": ({"a": "Mg=="}, {"b": "MQ=="}), "stringData": ({"a": "3"}, {"c": "1"})},
    "Service": {
        "spec.type": ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"),
        "spec.externalName": ("a.example.com",),
        "spec.sessionAffinity": ("None", "ClientIP"),
        "spec.sessionAffinityConfig": ({"clientIP": {"timeoutSeconds": 60}},),
        "spec.externalTrafficPolicy": ("Cluster", "Local"),
        "spec.internalTrafficPolicy": ("Cluster", "Local"),
        "spec.clusterIP": ("None",),
        "spec.allocateLoadBalancerNodePorts": (True, False),
        "spec.publishNotReadyAddresses": (True, False),
        "spec.loadBalancerClass": ("example.com/lb",),
        "spec.loadBalancerSourceRanges": (["192.0.2.0/24"],),
        "spec.ports": (
            [{"port": 80}],
            [{"port": 80, "targetPort": "web"}],
            [{"port": 80, "name": "a"}, {"port": 81, "name": "b", "protocol": "UDP"}],
        ),
        "spec.selector": ({"app": "other"},),
        "spec.ipFamilyPolicy": ("SingleStack", "PreferDualStack"),
        "spec.trafficDistribution": ("PreferClose",),
    },
    "ServiceAccount": {
        "automountServiceAccountToken": (True, False),
        "imagePullSecrets": ([{"name": "a"}], [{"name": "b"}]),
    },
    "PersistentVolumeClaim": {"metadata.annotations": ({"a": "1"}, {"b": "1"})},
    "LimitRange": {
        "spec.limits": (
            [{"type": "Container", "max": {"cpu": "1"}}],
            [{"type": "Container", "default": {"cpu": "500m"}}],
            [{"type": "Pod", "max": {"memory": "1024Mi"}}],
        )
    },
    "ResourceQuota": {
        "spec.hard": ({"pods": "900"}, {"requests.cpu": "900000m", "count/jobs.batch": "800"}),
        "spec.scopes": (["NotTerminating"],),
    },
    "Namespace": {"metadata.annotations": ({"a": "1"}, {"b": "1"})},
    "PersistentVolume": {
        "spec.persistentVolumeReclaimPolicy": ("Retain", "Delete"),
        "spec.mountOptions": (["ro"],),
        "spec.capacity": ({"storage": "2Gi"},),
        "spec.storageClassName": ("other",),
    },
    "Deployment": {
        "spec.strategy": (
            {"type": "Recreate"},
            *_STRATEGY,
            {"rollingUpdate": {"maxSurge": "50%"}},
        ),
        "spec.replicas": (0, 1),
        "spec.minReadySeconds": (0, 3),
        "spec.paused": (True, False),
        "spec.revisionHistoryLimit": (0, 3),
        "spec.progressDeadlineSeconds": (60, 900),
    },
    "StatefulSet": {
        "spec.updateStrategy": ({"type": "OnDelete"}, _ROLLING, {**_ROLLING, "rollingUpdate": {"partition": 1}}),
        "spec.replicas": (0, 1),
        "spec.minReadySeconds": (0, 3),
        "spec.persistentVolumeClaimRetentionPolicy": ({"whenDeleted": "Delete"}, {"whenScaled": "Delete"}),
        "spec.ordinals": ({"start": 1},),
        "spec.podManagementPolicy": ("OrderedReady",),
    },
    "DaemonSet": {
        "spec.updateStrategy": ({"type": "OnDelete"}, *_STRATEGY),
        "spec.minReadySeconds": (0, 3),
        "spec.revisionHistoryLimit": (0, 3),
    },
    "ReplicaSet": {"spec.replicas": (0, 1), "spec.minReadySeconds": (0, 3)},
    "ReplicationController": {"spec.replicas": (0, 1), "spec.minReadySeconds": (0, 3)},
    "Job": {
        "spec.parallelism": (1, 2),
        "spec.backoffLimit": (1, 3),
        "spec.suspend": (True, False),
        "spec.activeDeadlineSeconds": (60, 90),
        "spec.ttlSecondsAfterFinished": (9000, 9999),
    },
    "CronJob": {
        "spec.concurrencyPolicy": ("Allow", "Forbid", "Replace"),
        "spec.suspend": (True, False),
        "spec.timeZone": ("Etc/UTC",),
        "spec.startingDeadlineSeconds": (60, 90),
        "spec.successfulJobsHistoryLimit": (0, 5),
    },
    "HorizontalPodAutoscaler": {
        "spec.minReplicas": (1, 2),
        "spec.metrics": ([_CPU], [_LOAD], [_CPU, _LOAD]),
        "spec.behavior": (
            {"scaleUp": {"stabilizationWindowSeconds": 60}},
            {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
            {"scaleUp": {"selectPolicy": "Disabled"}},
        ),
    },
    "PodDisruptionBudget": {
        "spec.minAvailable": (1, "50%"),
        "spec.maxUnavailable": (1, "50%"),
        "spec.unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget"),
    },
    "Ingress": {
        "spec.defaultBackend": (
            {"service": {"name": "a", "port": {"number": 80}}},
            {"service": {"name": "a", "port": {"name": "http"}}},
            {"resource": {"apiGroup": "example.com", "kind": "Bucket", "name": "b"}},
        ),
        "spec.rules": (
            [
                {
                    "host": "b.example.com",
                    "http": {"paths": [{**_PATH, "backend": {"service": {"name": "b", "port": {"number": 1}}}}]},
                }
            ],
            [{"host": "c.example.com"}],
        ),
        "spec.tls": ([{"hosts": ["a.example.com"], "secretName": "s"}],),
        "spec.ingressClassName": ("a", "b"),
    },
    "NetworkPolicy": {
        "spec.policyTypes": (["Ingress"], ["Egress"], ["Ingress", "Egress"]),
        "spec.egress": ([], [{}], [{"to": [{"podSelector": {}}]}]),
        "spec.ingress": ([], [{}], [{"ports": [{"port": 80}]}]),
        "spec.podSelector": ({}, {"matchLabels": {"a": "1"}}),
    },
    "EndpointSlice": {"ports": ([{"port": 81}], [{"port": 80, "name": "web"}])},
    "Endpoints": {"subsets": ([{"addresses": [{"ip": "192.0.2.2"}], "ports": [{"port": 81}]}],)},
    "Lease": {"spec.holderIdentity": ("b", "c"), "spec.leaseDurationSeconds": (5, 9)},
    "Role": {"rules": ([], [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]}])},
    "RoleBinding": {
        "subjects": ([], [{"kind": "Group", "name": "g"}], [{"kind": "ServiceAccount", "name": "default"}])
    },
    "ClusterRole": {"rules": ([], [{"nonResourceURLs": ["/x"], "verbs": ["get"]}])},
    "ClusterRoleBinding": {"subjects": ([], [{"kind": "Group", "name": "g"}])},
    "StorageClass": {
        "allowVolumeExpansion": (True, False),
        "metadata.annotations": ({"a": "1"}, {"b": "1"}),
        "mountOptions": (["ro"],),
    },
    "CSIDriver": {
        "spec.podInfoOnMount": (True, False),
        "spec.requiresRepublish": (True, False),
        "spec.tokenRequests": ([{"audience": "a"}], [{"audience": "b", "expirationSeconds": 900}]),
    },
    "PriorityClass": {"description": ("a", "b"), "metadata.annotations": ({"a": "1"},)},
    "RuntimeClass": {"overhead": ({"podFixed": {"cpu": "100m"}},), "scheduling": ({"nodeSelector": {"a": "1"}},)},
    "IngressClass": {"spec.parameters": ({"apiGroup": "example.com", "kind": "P", "name": "p"},)},
    "ValidatingAdmissionPolicy": {
        "spec.failurePolicy": ("Fail", "Ignore"),
        "spec.variables": ([{"name": "a", "expression": "1"}],),
        "spec.auditAnnotations": ([{"key": "a", "valueExpression": "'x'"}],),
    },
    "ValidatingAdmissionPolicyBinding": {"spec.validationActions": (["Audit"], ["Deny"], ["Warn", "Audit"])},
    "PriorityLevelConfiguration": {
        "spec.limited": (
            {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}},
            {"limitResponse": {"type": "Queue"}},
            {"limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2}}},
        ),
    },
    "FlowSchema": {
        "spec.matchingPrecedence": (9000, 9100),
        "spec.distinguisherMethod": ({"type": "ByUser"}, {"type": "ByNamespace"}),
    },
}
_HOOK_ASPECTS: Final[Aspects] = {
    "webhooks.0.failurePolicy": ("Fail", "Ignore"),
    "webhooks.0.matchPolicy": ("Exact", "Equivalent"),
    "webhooks.0.timeoutSeconds": (3, 10),
    "webhooks.0.objectSelector": ({"matchLabels": {"a": "1"}},),
    "webhooks.0.clientConfig": (
        {"url": "https://127.0.0.1:9/other"},
        {"service": {"name": "s", "namespace": "default"}},
        {"service": {"name": "s", "namespace": "default", "path": "/x", "port": 8443}},
    ),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """One object as a first commit declares it, and as a second one does."""

    former: Manifest
    latter: Manifest
    is_global: bool

    def __str__(self) -> str:
        return f"{self.former['kind']}: {_content(self.former)} -> {_content(self.latter)}"


def kinds(unique: str) -> dict[str, Sample]:
    """Return a base of each kind that pairs are made of."""
    flow = "flowcontrol.apiserver.k8s.io/v1"
    level = {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    schema = {"priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": 9500}
    further = {
        "PriorityLevelConfiguration": manifest(flow, "PriorityLevelConfiguration", f"level-{unique}", spec=level),
        "FlowSchema": manifest(flow, "FlowSchema", f"flow-{unique}", spec=schema),
    }
    bases = samples(unique)
    # nothing of a Pod can be changed, and a bare one is for the scheduler
    del bases["Pod"]
    return bases | {kind: Sample(made, {}, flow, True) for kind, made in further.items()}


def pair(random: Random, sample: Sample, name: str) -> Pair:
    """Return a pair of a kind: four of its members have random values or none, and one or two have others after it."""
    aspects = _aspects(sample.kind)
    chosen = random.sample(sorted(aspects), min(4, len(aspects)))
    values = {path: random.choice((ABSENT, *aspects[path])) for path in chosen}
    changed = random.sample(chosen, min(random.choice((1, 1, 2)), len(chosen)))
    later = values | {path: random.choice((ABSENT, *aspects[path])) for path in changed}
    # a selector of its own: a Deployment takes over the ReplicaSets of another one
    base = json.loads(json.dumps(sample.manifest).replace('"app": "web"', f'"app": "{name}"'))
    if not base["metadata"]["name"].startswith(("widgets.", "sample-", "level-", "flow-")):
        base["metadata"]["name"] = name
    return Pair(_with_values(base, values), _with_values(base, later), sample.is_global)


def _aspects(kind: str) -> Aspects:
    aspects: Aspects = {"metadata.annotations": ({"a": "1"}, {"a": "2", "b": "1"}), **_ASPECTS.get(kind, {})}
    if kind.endswith("WebhookConfiguration"):
        aspects |= _HOOK_ASPECTS
    pods = _PODS.get(kind)
    if pods is not None and kind not in _IMMUTABLE_PODS:
        aspects |= {".".join((*pods, path)): values for path, values in _POD.items()}
    return aspects


def _with_values(base: Manifest, values: dict[str, Any]) -> Manifest:
    made = deepcopy(base)
    for path, value in values.items():
        *parents, last = path.split(".")
        target: Any = made
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target.setdefault(part, {})
        if value is not ABSENT:
            target[last] = deepcopy(value)
        elif path.endswith((".limited", ".rules", ".policyTypes", ".metrics")) or last not in _REQUIRED:
            target.pop(last, None)
    return made


_REQUIRED: Final = frozenset({"image", "ports", "clientConfig", "hard", "limits", "podSelector", "capacity", "rules"})
"""Members without which the base is not valid: where they would be absent, they stay as they are."""


def _content(made: Manifest) -> dict[str, Any]:
    return {name: value for name, value in made.items() if name not in ("apiVersion", "kind")}
