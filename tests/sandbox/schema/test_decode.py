from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gitsync.kube.openapi import openapi_schemas
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.kinds import strategy_for
from gitsync.sandbox.schema.decode import Codec
from tests.sandbox.kinds.factories import of, pod_spec, workload


def default(manifest: dict[str, Any]) -> dict[str, Any]:
    group, _, version = manifest["apiVersion"].rpartition("/")
    return strategy_for(group, version, manifest["kind"]).default(manifest)


GO = "json: cannot unmarshal"
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (of("v1", "ConfigMap", data={"a": 1}), f"{GO} number into Go struct field ConfigMap.data of type string"),
        (
            of("v1", "ConfigMap", data=["a"]),
            f"{GO} array into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            workload("Deployment", replicas="3"),
            f"{GO} string into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            workload("Deployment", replicas=1.5),
            f"{GO} number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            workload("Deployment", replicas=1 << 40),
            f"{GO} number {1 << 40} into Go struct field DeploymentSpec.spec.replicas of type int32",
        ),
        (
            workload("Deployment", paused="yes"),
            f"{GO} string into Go struct field DeploymentSpec.spec.paused of type bool",
        ),
        (
            workload("Deployment", template="x"),
            f"{GO} string into Go struct field DeploymentSpec.spec.template of type v1.PodTemplateSpec",
        ),
        (
            workload("Deployment", {"containers": {}}),
            f"{GO} object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            workload("Deployment", pod_spec(image=5)),
            f"{GO} number into Go struct field Container.spec.template.spec.containers.image of type string",
        ),
        (workload("Deployment", pod_spec(resources={"limits": {"cpu": "lots"}})), QUANTITY),
        (
            workload("Deployment", pod_spec(livenessProbe={"tcpSocket": {"port": True}})),
            f"{GO} bool into Go value of type int32",
        ),
        (of("v1", "Secret", data={"a": "not base64"}), "illegal base64 data at input byte 3"),
        (of("v1", "Secret", data={"a": "%%%"}), "illegal base64 data at input byte 0"),
        (of("v1", "Secret", data={"a": "YQ"}), "illegal base64 data at input byte 2"),
        (
            of("v1", "Event", firstTimestamp="yesterday"),
            'parsing time "yesterday" as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"',
        ),
        (
            of("v1", "Event", firstTimestamp="2024-13-02T03:04:05Z"),
            'parsing time "2024-13-02T03:04:05Z": month out of range',
        ),
        (
            of("v1", "Event", firstTimestamp="2024-02-31T03:04:05Z"),
            'parsing time "2024-02-31T03:04:05Z": day out of range',
        ),
        (
            of("v1", "Event", firstTimestamp="2024-01-02T24:04:05Z"),
            'parsing time "2024-01-02T24:04:05Z": hour out of range',
        ),
        (
            of("v1", "Event", eventTime="2024-02-31T03:04:05.000001Z"),
            'parsing time "2024-02-31T03:04:05.000001Z": day out of range',
        ),
        (
            of("v1", "Event", firstTimestamp="2024-01-02"),
            'parsing time "2024-01-02" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"',
        ),
        (of("v1", "Event", firstTimestamp=5), f"{GO} number into Go value of type string"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_as_go_does(manifest: dict[str, Any], why: str) -> None:
    with pytest.raises(ApiError) as refusal:
        default(manifest)
    kind = manifest["kind"]
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    assert refusal.value.message == f'{kind} in version "v1" cannot be handled as a {kind}: {why}'


def test_labels_must_be_text() -> None:
    manifest = of("v1", "ConfigMap")
    manifest["metadata"]["labels"] = {"a": True}
    with pytest.raises(
        ApiError, match=r"cannot unmarshal bool into Go struct field ObjectMeta\.metadata\.labels of type string"
    ):
        default(manifest)


def test_what_go_leaves_out_is_left_out() -> None:
    spec = pod_spec(
        tty=False, stdin=True, command=[], env=[{"name": "A", "value": ""}], securityContext={"runAsUser": 0}
    )
    manifest = workload(
        "Deployment", {**spec, "hostNetwork": False, "nodeSelector": {}, "priority": 0}, replicas=0, paused=False
    )
    manifest["metadata"] |= {"labels": {}, "annotations": None, "finalizers": []}
    decoded = default(manifest)
    pod = decoded["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert decoded["metadata"] == {"name": "x"}
    assert decoded["spec"]["replicas"] == 0
    assert "paused" not in decoded["spec"]
    assert (container["stdin"], container["env"], container["securityContext"]) == (
        True,
        [{"name": "A"}],
        {"runAsUser": 0},
    )
    assert not {"tty", "command"} & container.keys()
    assert pod["priority"] == 0
    assert not {"hostNetwork", "nodeSelector"} & pod.keys()


def test_nulls_are_absent_and_null_values_of_maps_are_empty() -> None:
    assert default(of("v1", "ConfigMap", data={"a": None}, immutable=None)) == of("v1", "ConfigMap", data={"a": ""})


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("1000m", "1"),
        ("0.5", "500m"),
        (0.5, "500m"),
        (2, "2"),
        ("1024Mi", "1Gi"),
        ("536870912", "536870912"),
        ("0.01Ti", "10995116277760m"),
    ],
)
def test_quantities_are_stored_in_one_spelling(given: Any, stored: str) -> None:
    quota = default(of("v1", "ResourceQuota", spec={"hard": {"requests.cpu": given}}))
    assert quota["spec"]["hard"] == {"requests.cpu": stored}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05.9Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02T01:04:05Z"),
    ],
)
def test_times_are_stored_in_utc_and_seconds(given: str, stored: str) -> None:
    assert default(of("v1", "Event", firstTimestamp=given))["firstTimestamp"] == stored


def test_the_input_stays_as_it_was() -> None:
    manifest = workload("Deployment", pod_spec(resources={"limits": {"cpu": "1000m"}}))
    before = repr(manifest)
    default(manifest)
    assert repr(manifest) == before


def test_unknown_members_are_found_in_the_order_of_the_object_and_pruned() -> None:
    strategy = strategy_for("apps", "v1", "Deployment")
    manifest = workload("Deployment", pod_spec(imagePullPolice="Always"), replicaz=2)
    manifest["metadata"]["colour"] = "x"
    assert strategy.unknown_fields(manifest) == [
        "metadata.colour",
        "spec.template.spec.containers[0].imagePullPolice",
        "spec.replicaz",
    ]
    assert strategy.prune(manifest) == workload("Deployment")


def test_types_that_hold_themselves_are_read() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "minProperties": 0}}}}
    crd = of(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        spec={"versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]},
    )
    assert default(crd)["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema


def test_a_schema_is_compiled_once_for_many_threads() -> None:
    codec = Codec(openapi_schemas("apps/v1"))
    name = codec.name_of("apps", "v1", "Deployment")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: codec.decode(name, workload("Deployment")), range(64)))
    assert all(decoded == found[0] for decoded in found)
