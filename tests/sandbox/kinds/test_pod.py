from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.kinds.factories import created, of, pod_spec, refused, workload

SPEC = "spec.template.spec"
FIRST = f"{SPEC}.containers[0]"


@pytest.mark.parametrize(
    ("container", "field", "message"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {}}]},
            "env[0].valueFrom",
            'Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, '
            "`secretKeyRef` or `fileKeyRef`",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": ""}}}]},
            "env[0].valueFrom.secretKeyRef.key",
            "Required value",
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.phase"}}}]},
            "env[0].valueFrom.fieldRef.fieldPath",
            'Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", '
            '"metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", '
            '"status.podIP", "status.podIPs"',
        ),
        ({"envFrom": [{"configMapRef": {}}]}, "envFrom[0].configMapRef.name", "Required value"),
        (
            {"ports": [{"containerPort": 80, "name": "a"}, {"containerPort": 81, "name": "a"}]},
            "ports[1].name",
            'Duplicate value: "a"',
        ),
        ({"ports": [{"name": "x"}]}, "ports[0].containerPort", "Required value"),
        (
            {"livenessProbe": {"httpGet": {"port": "no_name"}}},
            "livenessProbe.httpGet.port",
            'Invalid value: "no_name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
        ),
        (
            {"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}},
            "livenessProbe.successThreshold",
            "Invalid value: 2: must be 1",
        ),
        ({"lifecycle": {"preStop": {}}}, "lifecycle.preStop", "Required value: must specify a handler type"),
        (
            {"resources": {"limits": {"gpus": 1}}},
            "resources.limits[gpus]",
            'Invalid value: "gpus": must be a standard resource type or fully qualified',
        ),
        (
            {"resources": {"requests": {"example.com/gpu": 1}}},
            "resources.limits",
            "Required value: Limit must be set for non overcommitable resources",
        ),
        (
            {"securityContext": {"runAsUser": -1}},
            "securityContext.runAsUser",
            "Invalid value: -1: must be between 0 and 2147483647, inclusive",
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}]},
            "volumeMounts[1].mountPath",
            'Invalid value: "/a": must be unique',
        ),
    ],
)
def test_a_container_is_checked(container: dict[str, Any], field: str, message: str) -> None:
    spec = {**pod_spec(**container), "volumes": [{"name": "v", "emptyDir": {}}]}
    assert (f"{FIRST}.{field}", message) in refused(workload("Deployment", spec))


@pytest.mark.parametrize(
    ("members", "field", "message"),
    [
        ({"containers": []}, "containers", "Required value"),
        ({"restartPolicy": "Never"}, "restartPolicy", 'Unsupported value: "Never": supported values: "Always"'),
        (
            {"dnsPolicy": "Mine"},
            "dnsPolicy",
            'Unsupported value: "Mine": supported values: "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"',
        ),
        ({"volumes": [{"name": "v", "secret": {}}]}, "volumes[0].secret.secretName", "Required value"),
        (
            {"volumes": [{"name": "v", "hostPath": {"path": "/a/../b"}}]},
            "volumes[0].hostPath.path",
            "Invalid value: \"/a/../b\": must not contain '..'",
        ),
        (
            {"volumes": [{"name": "V"}]},
            "volumes[0].name",
            'Invalid value: "V": a lowercase RFC 1123 label must consist',
        ),
        (
            {"volumes": [{"name": "v", "configMap": {"name": "c", "defaultMode": 4096}}]},
            "volumes[0].configMap.defaultMode",
            "Invalid value: 4096: must be a number between 0 and 0777 (octal), both inclusive",
        ),
        (
            {"tolerations": [{"operator": "Near"}]},
            "tolerations[0].operator",
            'Unsupported value: "Near": supported values: "Equal", "Exists"',
        ),
        ({"nodeSelector": {"bad key": "x"}}, "nodeSelector", 'Invalid value: "bad key": name part must consist'),
        (
            {"activeDeadlineSeconds": 5},
            "activeDeadlineSeconds",
            "Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            "topologySpreadConstraints[0].maxSkew",
            "Invalid value: 0: must be greater than zero",
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey",
            "Required value: can not be empty",
        ),
        ({"initContainers": [{"name": "c", "image": "i"}]}, "initContainers[0].name", 'Duplicate value: "c"'),
        ({"serviceAccountName": "A"}, "serviceAccountName", 'Invalid value: "A": a lowercase RFC 1123 subdomain'),
    ],
)
def test_a_pod_spec_is_checked(members: dict[str, Any], field: str, message: str) -> None:
    causes = refused(workload("Deployment", {**pod_spec(), **members}))
    assert any(where == f"{SPEC}.{field}" and text.startswith(message) for where, text in causes), causes


def test_a_new_pod_has_no_ephemeral_containers() -> None:
    spec = {**pod_spec(), "ephemeralContainers": [{"name": "shell", "image": "busybox:1"}]}
    causes = refused(of("v1", "Pod", spec=spec))
    assert ("spec.ephemeralContainers", "Forbidden: cannot be set on create") in causes


def test_a_good_pod_has_no_causes() -> None:
    container = {
        "env": [
            {"name": "A", "value": "b"},
            {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
        ],
        "ports": [{"containerPort": 80, "name": "http"}],
        "readinessProbe": {"httpGet": {"port": "http"}},
        "resources": {"limits": {"cpu": 1, "example.com/gpu": 1}},
        "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "a/b"}],
    }
    projected = {
        "sources": [
            {"serviceAccountToken": {"path": "t"}},
            {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ]
    }
    spec = {
        **pod_spec(**container),
        "volumes": [{"name": "v", "projected": projected}],
        "tolerations": [{"operator": "Exists"}],
        "serviceAccountName": "default",
    }
    assert refused(of("v1", "Pod", spec=spec)) == []


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.25", "IfNotPresent"),
        ("localhost:5000/team/app", "Always"),
        ("localhost:5000/team/app:v1", "IfNotPresent"),
        (f"nginx@sha256:{'a' * 64}", "IfNotPresent"),
        (" nginx", "IfNotPresent"),
        ("Nginx", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_image(image: str, policy: str) -> None:
    pod = created(of("v1", "Pod", spec=pod_spec(image=image)))
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy
