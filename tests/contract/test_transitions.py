"""Changes of a field that decides which others are valid: what the API server had set for the former value goes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at, uid_of
from tests.contract.manifests import deployment, manifest
from tests.contract.stage import TIMEOUT, Stage
from tests.waiting import until

POD = {"containers": [{"name": "web", "image": "web:1"}]}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
HTTP = {"httpGet": {"path": "/", "port": 80}}
EXEC = {"exec": {"command": ["true"]}}
ALWAYS = ("spec", "template", "spec")
Path = tuple[str | int, ...]


def workload(kind: str, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": {"app": kind}}, "spec": POD}
    return manifest(
        "apps/v1", kind, "web", spec={"selector": {"matchLabels": {"app": kind}}, "template": template, **spec}
    )


def stateful(**spec: Any) -> Manifest:
    return workload("StatefulSet", serviceName="web", volumeClaimTemplates=[CLAIM], **spec)


def deployed(**members: Any) -> Manifest:
    """Return a Deployment with more members of its Pods; those of its container are under ``container``."""
    changed = deepcopy(deployment(replicas=0))
    container = members.pop("container", {})
    changed["spec"]["template"]["spec"] |= members
    changed["spec"]["template"]["spec"]["containers"][0] |= container
    return changed


def service(**spec: Any) -> Manifest:
    return manifest("v1", "Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}], **spec})


def network_policy(**spec: Any) -> Manifest:
    return manifest("networking.k8s.io/v1", "NetworkPolicy", "web", spec={"podSelector": {}, **spec})


def budget(**spec: Any) -> Manifest:
    return manifest(
        "policy/v1", "PodDisruptionBudget", "web", spec={"selector": {"matchLabels": {"app": "web"}}, **spec}
    )


def scaler(*metrics: Any) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "metrics": list(metrics)}
    return manifest("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=spec)


def ingress(**backend: Any) -> Manifest:
    return manifest("networking.k8s.io/v1", "Ingress", "web", spec={"defaultBackend": backend})


def cpu(**target: Any) -> Any:
    return {"type": "Resource", "resource": {"name": "cpu", "target": target}}


def ports(*numbers: tuple[str, int, str]) -> list[Any]:
    return [{"name": name, "port": port, "protocol": protocol} for name, port, protocol in numbers]


BUCKET = {"apiGroup": "example.com", "kind": "Bucket", "name": "web"}
PODS = {"type": "Pods", "pods": {"metric": {"name": "load"}, "target": {"type": "AverageValue", "averageValue": "1"}}}
CONTAINER = (*ALWAYS, "containers", 0)
TRANSITIONS: dict[str, tuple[Manifest, Manifest, Path, Any]] = {
    "strategy of a Deployment": (
        deployed(),
        {**deployed(), "spec": {**deployed()["spec"], "strategy": {"type": "Recreate"}}},
        ("spec", "strategy"),
        {"type": "Recreate"},
    ),
    "strategy of a StatefulSet": (
        stateful(),
        stateful(updateStrategy={"type": "OnDelete"}),
        ("spec", "updateStrategy"),
        {"type": "OnDelete"},
    ),
    "strategy of a DaemonSet": (
        workload("DaemonSet"),
        workload("DaemonSet", updateStrategy={"type": "OnDelete"}),
        ("spec", "updateStrategy"),
        {"type": "OnDelete"},
    ),
    "source of a volume": (
        deployed(volumes=[{"name": "v"}]),
        deployed(volumes=[{"name": "v", "configMap": {"name": "c", "optional": True}}]),
        (*ALWAYS, "volumes", 0),
        {"name": "v", "configMap": {"name": "c", "optional": True, "defaultMode": 420}},
    ),
    "handler of a probe": (
        deployed(container={"livenessProbe": {**HTTP, "periodSeconds": 3}}),
        deployed(container={"livenessProbe": {**EXEC, "periodSeconds": 3}}),
        (*CONTAINER, "livenessProbe"),
        {**EXEC, "periodSeconds": 3, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3},
    ),
    "handler of a lifecycle": (
        deployed(container={"lifecycle": {"preStop": HTTP}}),
        deployed(container={"lifecycle": {"preStop": EXEC}}),
        (*CONTAINER, "lifecycle"),
        {"preStop": EXEC},
    ),
    "source of a variable": (
        deployed(container={"env": [{"name": "A", "value": "1"}]}),
        deployed(container={"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        (*CONTAINER, "env"),
        [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    ),
    "pull policy of an image": (
        deployed(),
        deployed(container={"image": "web"}),
        (*CONTAINER, "imagePullPolicy"),
        "Always",
    ),
    "account of Pods that is removed": (
        deployed(serviceAccountName="deployer"),
        deployed(),
        (*ALWAYS, "serviceAccount"),
        None,
    ),
    "account of Pods by its deprecated name": (
        deployed(serviceAccount="deployer"),
        deployed(serviceAccount="other"),
        (*ALWAYS, "serviceAccountName"),
        "other",
    ),
    "egress rules that are added": (
        network_policy(),
        network_policy(egress=[{}]),
        ("spec", "policyTypes"),
        ["Ingress", "Egress"],
    ),
    "egress rules that are removed": (
        network_policy(egress=[{}]),
        network_policy(),
        ("spec", "policyTypes"),
        ["Ingress"],
    ),
    "affinity of a Service": (
        service(sessionAffinity="ClientIP"),
        service(sessionAffinity="None"),
        ("spec", "sessionAffinityConfig"),
        None,
    ),
    "type of a Service": (
        service(type="NodePort"),
        service(type="ClusterIP"),
        ("spec", "ports"),
        [{"port": 80, "targetPort": 80, "protocol": "TCP"}],
    ),
    "type of a Service that loses what it declared": (
        service(internalTrafficPolicy="Cluster"),
        service(type="ExternalName", externalName="a.example.com"),
        ("spec", "internalTrafficPolicy"),
        None,
    ),
    "ports of one number and two protocols": (
        service(ports=ports(("http", 80, "TCP"))),
        service(ports=ports(("a", 1985, "UDP"), ("b", 1985, "TCP"), ("c", 443, "TCP"), ("d", 443, "UDP"))),
        ("spec", "ports", 3),
        {"name": "d", "port": 443, "targetPort": 443, "protocol": "UDP"},
    ),
    "bound of a PodDisruptionBudget": (
        budget(minAvailable=1),
        budget(maxUnavailable=1),
        ("spec", "minAvailable"),
        None,
    ),
    "target of a metric": (
        scaler(cpu(type="Utilization", averageUtilization=50)),
        scaler(cpu(type="AverageValue", averageValue="1")),
        ("spec", "metrics"),
        [cpu(type="AverageValue", averageValue="1")],
    ),
    "type of a metric": (
        scaler(cpu(type="Utilization", averageUtilization=50)),
        scaler(PODS),
        ("spec", "metrics"),
        [PODS],
    ),
    "backend of an Ingress": (
        ingress(service={"name": "web", "port": {"number": 80}}),
        ingress(resource=BUCKET),
        ("spec", "defaultBackend"),
        {"resource": BUCKET},
    ),
    "port of a backend": (
        ingress(service={"name": "web", "port": {"number": 80}}),
        ingress(service={"name": "web", "port": {"name": "http"}}),
        ("spec", "defaultBackend"),
        {"service": {"name": "web", "port": {"name": "http"}}},
    ),
    "a key that becomes binary": (
        manifest("v1", "ConfigMap", "web", data={"a": "1"}),
        manifest("v1", "ConfigMap", "web", binaryData={"a": "MQ=="}),
        ("data",),
        None,
    ),
}
"""Former and latter state of an object, and a place in which the latter one, created alone, has this value."""


def named(number: int, made: Manifest) -> Manifest:
    return {**made, "metadata": {**made["metadata"], "name": f"t{number}"}}


def test_a_choice_replaces_the_former_one_with_its_defaults(stage: Stage) -> None:
    stage.sync({f"{number}.yaml": named(number, row[0]) for number, row in enumerate(TRANSITIONS.values())})

    def live(number: int, made: Manifest) -> Manifest:
        return stage.live(made["kind"], f"t{number}", api=made["apiVersion"])

    uids = [uid_of(live(number, row[0])) for number, row in enumerate(TRANSITIONS.values())]
    commit = stage.commit({f"{number}.yaml": named(number, row[1]) for number, row in enumerate(TRANSITIONS.values())})
    stage.synced(commit)
    objects = [live(number, row[1]) for number, row in enumerate(TRANSITIONS.values())]
    values = {name: at(found, *row[2]) for found, (name, row) in zip(objects, TRANSITIONS.items(), strict=True)}
    assert values == {name: row[3] for name, row in TRANSITIONS.items()}
    assert [uid_of(found) for found in objects] == uids
    # what was removed leaves no difference behind, such as of a field that we still own
    until(lambda: stage.plan_writes() == [], TIMEOUT, stage.plan_writes)


def test_what_the_api_server_keeps_is_reported(stage: Stage) -> None:
    stage.sync({"a.yaml": service(clusterIP="None")})
    stage.synced(stage.commit({"a.yaml": service()}))

    def message() -> str:
        return str(find_condition(stage.status(), "Undeclared").get("message", ""))

    until(lambda: ".spec.clusterIP is None, which Git no longer declares" in message(), TIMEOUT, message)
    stage.delete("Service", "web")
    until(lambda: not message(), TIMEOUT, message)
    assert stage.live("Service", "web")["spec"]["clusterIP"] != "None"


def test_a_renamed_holder_makes_room(stage: Stage) -> None:
    port = 30000 + int(stage.system[-4:], 16) % 2700
    stage.sync(
        {"a.yaml": service(type="NodePort", ports=[{"port": 80, "nodePort": port}]), "b.yaml": named(1, service())}
    )
    address = stage.live("Service", "t1")["spec"]["clusterIP"]
    stage.synced(stage.commit({"b.yaml": named(1, service(clusterIP=address))}))
    renamed = {
        "a.yaml": named(2, service(type="NodePort", ports=[{"port": 80, "nodePort": port}])),
        "b.yaml": named(3, service(clusterIP=address)),
    }
    stage.synced(stage.commit(renamed))
    assert (stage.get("Service", "web"), stage.get("Service", "t1")) == (None, None)
    assert at(stage.live("Service", "t2"), "spec", "ports", 0, "nodePort") == port
    assert stage.live("Service", "t3")["spec"]["clusterIP"] == address
