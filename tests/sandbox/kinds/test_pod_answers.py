"""Causes and stored members of pods, as a real 1.36.2 control plane answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.http_client import MERGE, Client

EMPTY = {"name": "v", "emptyDir": {}}
TERM = {"topologyKey": "zone", "labelSelector": {}}


def pods(api: Client) -> str:
    path = api.namespace()
    api.ask("POST", path.replace("configmaps", "serviceaccounts"), {"metadata": {"name": "default"}})
    return path.replace("configmaps", "pods")


def pod(name: str, container: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i", **(container or {})}], **spec},
    }


def causes(answer: Any) -> list[tuple[str, str]]:
    return [(cause["field"], cause["reason"].removeprefix("FieldValue")) for cause in answer.json["details"]["causes"]]


def file_key(**reference: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", **reference}}}]}


def projected(*sources: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "projected": {"sources": list(sources)}}]}


def label(path: str = "", field: str = "metadata.labels") -> dict[str, Any]:
    return {"downwardAPI": {"items": [{"path": path, "fieldRef": {"fieldPath": field}}]}}


FROM = "containers[0].env[0].valueFrom"


@pytest.mark.parametrize(
    ("container", "found"),
    [
        (
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "S", "key": "k"}}}]},
            [(f"{FROM}.secretKeyRef.name", "Invalid")],
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"key": "k"}}}]},
            [(f"{FROM}.configMapKeyRef.name", "Invalid")],
        ),
        ({"envFrom": [{}]}, [("containers[0].envFrom", "Invalid")]),
        (file_key(volumeName="other"), [(f"{FROM}.fileKeyRef.volumeName", "NotFound")]),
        (
            file_key(volumeName="S", path="../p"),
            [
                (f"{FROM}.fileKeyRef.volumeName", "Invalid"),
                (f"{FROM}.fileKeyRef.path", "Invalid"),
                (f"{FROM}.fileKeyRef.volumeName", "NotFound"),
            ],
        ),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/v", "mountPropagation": "x"}]},
            [("containers[0].volumeMounts.mountPropagation", "NotSupported")],
        ),
        (
            {"restartPolicyRules": [{"action": "x", "exitCodes": {"operator": "Is"}}]},
            [
                ("containers[0].restartPolicy", "Required"),
                ("containers[0].restartPolicyRules[0].action", "NotSupported"),
                ("containers[0].restartPolicyRules[0].exitCodes.operator", "NotSupported"),
            ],
        ),
    ],
)
def test_members_of_a_container_are_checked(api: Client, container: Any, found: list[tuple[str, str]]) -> None:
    answer = api.ask("POST", pods(api), pod("p", container, volumes=[EMPTY]))
    assert causes(answer) == [(f"spec.{field}", reason) for field, reason in found]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"hostnameOverride": "a_b"}, [("hostnameOverride", "Invalid")]),
        ({"dnsConfig": {"searches": [".", "_a.b.", "-"]}}, [("dnsConfig.searches[2]", "Invalid")]),
        ({"securityContext": {"seLinuxChangePolicy": ""}}, [("securityContext.seLinuxChangePolicy", "NotSupported")]),
        ({"volumes": [{"name": "v", "csi": {"driver": "A_b"}}]}, [("volumes[0].csi.driver", "Invalid")]),
        (
            {"volumes": [{"name": "v", "nfs": {"server": "s"}}]},
            [("volumes[0].nfs.path", "Required"), ("volumes[0].nfs.path", "Invalid")],
        ),
        ({"volumes": [{**EMPTY, "downwardAPI": {}}]}, [("volumes[0].downwarAPI", "Forbidden")]),
        (projected({}, label()), [("volumes[0].projected.sources[1].downwardAPI.path", "Required")]),
        (projected(label("l"), label("l")), [("volumes[0].projected", "Invalid")]),
        (projected({"serviceAccountToken": {}}), [("volumes[0].projected.path", "Required")]),
        (
            projected({**label("l"), "serviceAccountToken": {"path": "t"}}),
            [("volumes[0].projected.sources[0]", "Forbidden")],
        ),
    ],
)
def test_members_of_a_pod_are_checked(api: Client, spec: Any, found: list[tuple[str, str]]) -> None:
    assert causes(api.ask("POST", pods(api), pod("p", **spec))) == [(f"spec.{field}", why) for field, why in found]


def test_a_volume_with_causes_cannot_be_mounted(api: Client) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    answer = api.ask("POST", pods(api), pod("p", mount, volumes=[{"name": "v", "configMap": {}}]))
    mounted = "spec.containers[0].volumeMounts[0].name"
    assert causes(answer) == [("spec.volumes[0].configMap.name", "Required"), (mounted, "NotFound")]


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ({**TERM, "namespaces": ["A"]}, [("namespace", "Invalid")]),
        ({**TERM, "topologyKey": ""}, [("topologyKey", why) for why in ("Required", "Invalid", "Invalid")]),
        ({"topologyKey": "zone", "matchLabelKeys": ["a"]}, [("matchLabelKeys", "Forbidden")]),
        ({**TERM, "matchLabelKeys": ["a"], "mismatchLabelKeys": ["a"]}, [("matchLabelKeys[0]", "Invalid")]),
        ({**TERM, "mismatchLabelKeys": ["*"]}, [("mismatchLabelKeys[0]", "Invalid")]),
    ],
)
def test_terms_of_pod_affinity_are_checked(api: Client, term: Any, found: list[tuple[str, str]]) -> None:
    member = "requiredDuringSchedulingIgnoredDuringExecution"
    answer = api.ask("POST", pods(api), pod("p", affinity={"podAffinity": {member: [term]}}))
    assert causes(answer) == [(f"spec.affinity.podAffinity.{member}[0].{field}", why) for field, why in found]


def test_nodes_are_selected_by_their_name_alone(api: Client) -> None:
    member = "requiredDuringSchedulingIgnoredDuringExecution"
    fields = [
        {"key": "metadata.name", "operator": "In", "values": ["a", "b"]},
        {"key": "x", "operator": "Exists"},
    ]
    affinity = {"nodeAffinity": {member: {"nodeSelectorTerms": [{"matchFields": fields}]}}}
    prefix = f"spec.affinity.nodeAffinity.{member}.nodeSelectorTerms[0].matchFields"
    assert causes(api.ask("POST", pods(api), pod("p", affinity=affinity))) == [
        (f"{prefix}[0].values", "Required"),
        (f"{prefix}[1].operator", "Invalid"),
        (f"{prefix}[1].key", "Invalid"),
    ]


def test_an_update_keeps_the_tolerations_of_admission(api: Client) -> None:
    path = pods(api)
    made = api.ask("POST", path, pod("p")).json
    patch = {"spec": {"tolerations": None}}
    assert api.ask("PATCH", f"{path}/p", patch, Content_Type=MERGE).json["spec"] == made["spec"]


def test_an_update_needs_the_images_and_the_account_of_a_token(api: Client) -> None:
    path = pods(api)
    made = api.ask("POST", path, pod("p", **projected({"serviceAccountToken": {"path": "t"}}))).json
    made["spec"]["containers"][0]["image"] = ""
    del made["spec"]["serviceAccountName"], made["spec"]["serviceAccount"]
    assert causes(api.ask("PUT", f"{path}/p", made))[:4] == [
        ("spec.containers[0].image", "Required"),
        ("spec.volumes[0].projected.sources[0].serviceAccountToken", "Forbidden"),
        ("spec.volumes[1].projected.sources[0].serviceAccountToken", "Forbidden"),
        ("spec.containers[0].image", "Required"),
    ]


def test_members_behind_disabled_feature_gates_are_dropped(api: Client) -> None:
    sources = projected({"podCertificate": {"signerName": "a.b/c", "keyType": "ED25519"}}, label("l"))
    made = api.ask("POST", pods(api), pod("p", schedulingGroup={"podGroupName": "g"}, **sources))
    assert made.status == 201
    assert "schedulingGroup" not in made.json["spec"]
    assert made.json["spec"]["volumes"][0]["projected"]["sources"][0] == {}


def test_an_address_of_a_host_without_its_port_is_warned_about(api: Client) -> None:
    made = api.ask("POST", pods(api), pod("p", {"ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]}))
    text = "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"
    assert f"spec.containers[0].ports[0]: hostIP set without hostPort: {text}" in made.headers["Warning"]
