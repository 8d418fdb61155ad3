from __future__ import annotations

import threading
from typing import Any

import pytest

from gitsync.kube.openapi import kubernetes_version, openapi_schemas, resources
from gitsync.merge.schema import DEDUCED, DefinedKinds, Schema, Schemas, builtin, kind_schema, schema_from_crd

DEPLOYMENT = builtin().for_kind("apps", "v1", "Deployment")


def at(schema: Schema | None, *names: str) -> Schema:
    for name in names:
        assert schema is not None
        schema = schema.items if name == "*" else schema.fields[name]
    assert schema is not None
    return schema


POD = ("spec", "template", "spec")


def test_knows_the_lists_of_a_deployment() -> None:
    containers = at(DEPLOYMENT, *POD, "containers")
    assert (containers.list_type, containers.keys, containers.merge_key) == ("map", ("name",), "name")
    ports = at(containers, "*", "ports")
    assert ports.keys == ("containerPort", "protocol")
    assert at(ports, "*", "protocol").default == "TCP"
    assert at(containers, "*", "args").list_type == "atomic"
    assert at(DEPLOYMENT, "metadata", "finalizers").list_type == "set"
    assert at(DEPLOYMENT, "metadata", "finalizers").patch_strategy == ("merge",)


def test_knows_which_maps_are_whole() -> None:
    assert at(builtin().for_kind("apps", "v1", "ControllerRevision"), "data").map_atomic
    assert at(DEPLOYMENT, "spec", "selector").map_atomic
    assert not at(DEPLOYMENT, "metadata", "labels").map_atomic
    assert at(DEPLOYMENT, "metadata", "ownerReferences", "*").map_atomic


def test_knows_quantities_and_values_of_two_types() -> None:
    limits = at(DEPLOYMENT, *POD, "containers", "*", "resources", "limits")
    assert at(limits, "cpu").format == "quantity"
    surge = at(DEPLOYMENT, "spec", "strategy", "rollingUpdate", "maxSurge")
    assert (surge.format, surge.scalar, surge.is_map) == ("int-or-string", "untyped", True)
    assert not at(limits, "cpu").is_map


def test_an_embedded_value_may_be_anything_and_has_one_owner() -> None:
    data = at(builtin().for_kind("apps", "v1", "ControllerRevision"), "data")
    assert (data.scalar, data.is_list, data.map_atomic) == ("untyped", True, True)


def test_an_undeclared_member_of_a_struct_is_unknown() -> None:
    assert at(DEPLOYMENT, "spec").fields["foo"] is None


def test_what_nobody_described_is_deduced() -> None:
    crd = builtin().for_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    default = at(crd, "spec", "versions", "*", "schema", "openAPIV3Schema", "default")
    assert default.is_map
    assert default.is_list
    assert default.scalar == "untyped"


def test_types_may_refer_to_themselves() -> None:
    crd = builtin().for_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    properties = at(crd, "spec", "versions", "*", "schema", "openAPIV3Schema", "properties")
    again = at(properties, "a", "properties")
    assert at(again, "b", "properties") is again


def test_a_kind_without_a_document_has_no_schema() -> None:
    assert builtin().for_kind("example.com", "v1", "Widget") is None
    with pytest.raises(KeyError):
        builtin().named("io.example.Nothing")


def test_the_empty_object_holds_the_structs_and_required_members_of_the_type() -> None:
    assert DEPLOYMENT is not None
    assert DEPLOYMENT.empty == {
        "metadata": {},
        "spec": {
            "selector": None,
            "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": None}},
        },
        "status": {},
    }


def test_an_empty_object_leaves_out_what_newer_types_omit() -> None:
    binding = builtin().for_kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding")
    assert binding is not None
    assert binding.empty == {"metadata": {}, "spec": {}}
    scaler = builtin().for_kind("autoscaling", "v2", "HorizontalPodAutoscaler")
    assert scaler is not None
    assert scaler.empty["spec"] == {"maxReplicas": 0, "scaleTargetRef": {"kind": "", "name": ""}}


def test_a_custom_type_gets_the_members_of_every_object_and_is_empty_at_first() -> None:
    schema = schema_from_crd(
        {
            "type": "object",
            "required": ["spec"],
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "size": {"type": "integer"},
                        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        "port": {"x-kubernetes-int-or-string": True},
                        "pods": {
                            "type": "array",
                            "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["name"],
                            "items": {
                                "type": "object",
                                "x-kubernetes-embedded-resource": True,
                                "properties": {"name": {"type": "string"}},
                            },
                        },
                    },
                }
            },
        }
    )
    assert schema.custom
    assert schema.empty == {}
    assert at(schema, "metadata", "labels", "x").scalar == "string"
    assert at(schema, "spec", "size").scalar == "numeric"
    assert at(schema, "spec", "any").fields["x"] is DEDUCED
    assert at(schema, "spec", "port").scalar_types >= {int, str}
    assert at(schema, "spec", "pods").keys == ("name",)
    assert at(schema, "spec", "pods", "*", "metadata", "finalizers").list_type == "set"
    assert at(schema, "spec").fields["other"] is None


def test_a_custom_type_that_keeps_unknown_fields_keeps_them_at_every_depth_but_in_metadata() -> None:
    schema = schema_from_crd(
        {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }
    )
    assert at(schema, "spec").fields["other"] is DEDUCED
    assert at(schema, "metadata").fields["other"] is None


@pytest.mark.parametrize(
    "schemas",
    [
        {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}},
        {"a": {"$ref": "#/components/schemas/absent"}},
        {"a": {}},
    ],
)
def test_a_reference_that_leads_nowhere_is_deduced(schemas: dict[str, object]) -> None:
    schema = Schemas(schemas).named("a")
    assert schema.is_map
    assert schema.is_list


def test_what_stands_beside_a_reference_changes_the_type_there_only() -> None:
    schemas = Schemas.from_openapi(
        [
            {
                "components": {
                    "schemas": {
                        "root": {
                            "type": "object",
                            "properties": {
                                "whole": {
                                    "allOf": [{"$ref": "#/components/schemas/part"}],
                                    "x-kubernetes-map-type": "atomic",
                                },
                                "parts": {"$ref": "#/components/schemas/part"},
                                "inline": {"allOf": [{"type": "string"}], "default": "x"},
                            },
                        },
                        "part": {"type": "object", "properties": {"a": {"type": "string"}}},
                    }
                }
            },
            {},
        ]
    )
    root = schemas.named("root")
    assert at(root, "whole").map_atomic
    assert not at(root, "parts").map_atomic
    assert (at(root, "inline").scalar, at(root, "inline").default) == ("string", "x")
    assert at(root, "parts") is schemas.named("part")


def test_many_threads_see_whole_types_only() -> None:
    schemas = Schemas(builtin().raw)
    seen: list[Schema] = []
    start = threading.Barrier(8)

    def read() -> None:
        start.wait()
        seen.append(at(schemas.for_kind("apps", "v1", "StatefulSet"), *POD, "containers", "*", "env", "*"))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 8
    assert all({"name", "value", "valueFrom"} <= schema.declared for schema in seen)
    assert schemas.for_kind("apps", "v1", "StatefulSet") is schemas.for_kind("apps", "v1", "StatefulSet")


def test_tells_resources_as_discovery_does() -> None:
    (deployments,) = (r for r in resources() if (r.group, r.plural) == ("apps", "deployments"))
    assert deployments.api_version == "apps/v1"
    assert deployments.namespaced
    assert deployments.short_names == ("deploy",)
    assert deployments.categories == ("all",)
    assert [(s.name, s.kind, s.group) for s in deployments.subresources] == [
        ("scale", "Scale", "autoscaling"),
        ("status", "Deployment", ""),
    ]
    (nodes,) = (r for r in resources() if r.plural == "nodes")
    assert not nodes.namespaced
    assert nodes.api_version == "v1"


def test_every_resource_that_can_be_listed_has_a_schema_but_those_of_devices() -> None:
    for resource in resources():
        if "list" in resource.verbs and resource.group != "resource.k8s.io":
            assert builtin().for_kind(resource.group, resource.version, resource.kind), resource


def test_serves_the_schemas_of_a_document_again() -> None:
    assert kubernetes_version() == "1.36"
    schemas = openapi_schemas("apps/v1")
    assert "io.k8s.api.apps.v1.Deployment" in schemas
    assert schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    assert "io.k8s.api.core.v1.Pod" in openapi_schemas("v1")
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in openapi_schemas("apiregistration.k8s.io/v1")
    with pytest.raises(KeyError):
        openapi_schemas("example.com/v1")


def test_a_schema_shows_its_name_or_its_kind() -> None:
    assert repr(DEPLOYMENT) == "Schema('io.k8s.api.apps.v1.Deployment')"
    assert repr(at(DEPLOYMENT, "spec", "replicas")) == "Schema('numeric')"
    assert repr(at(DEPLOYMENT, *POD, "containers", "*", "args")) == "Schema('list')"


def test_a_custom_type_may_allow_any_members_without_saying_which() -> None:
    schema = schema_from_crd(
        {"type": "object", "properties": {"open": {"type": "object", "additionalProperties": True}}}
    )
    assert at(schema, "open").fields["x"] is DEDUCED


def _definition(**spec: Any) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer"}}}}
    versions = [{"name": "v1", "schema": schema}, {"name": "v2"}]
    names = {"kind": "Widget"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "example.com", "names": names, "versions": versions, **spec},
    }


def _kind(api_version: str, kind: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind}


def test_a_definition_describes_its_kind_at_its_versions() -> None:
    defined = DefinedKinds([_kind("v1", "ConfigMap"), _definition()])
    schema = defined.schema_of(_kind("example.com/v1", "Widget"))
    assert schema is not None
    assert at(schema, "size").scalar == "numeric"
    assert defined.schema_of(_kind("example.com/v1", "Widget")) is schema, "compiled once"
    assert defined.schema_of(_kind("example.com/v2", "Widget")) is None, "without a schema"
    assert defined.schema_of(_kind("other.com/v1", "Widget")) is None


@pytest.mark.parametrize("spec", [{"preserveUnknownFields": True}, {"versions": "none"}])
def test_an_odd_definition_describes_no_kind(spec: dict[str, Any]) -> None:
    assert DefinedKinds([_definition(**spec)]).schema_of(_kind("example.com/v1", "Widget")) is None


@pytest.mark.parametrize(
    ("api_version", "kind", "replacement"),
    [
        pytest.param("autoscaling/v2beta2", "HorizontalPodAutoscaler", "v2", id="of its own number"),
        pytest.param("apps/v1beta2", "Deployment", "v1", id="of its own number, too"),
        pytest.param("batch/v2alpha1", "CronJob", "v1", id="of the only number"),
    ],
)
def test_a_retired_version_is_read_as_its_replacement(api_version: str, kind: str, replacement: str) -> None:
    group = api_version.partition("/")[0]
    assert kind_schema(builtin(), _kind(api_version, kind)) is builtin().for_kind(group, replacement, kind)


def test_a_custom_kind_is_not_read_by_another_version() -> None:
    schema = {
        "type": "object",
        "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "W"}],
    }
    schemas = Schemas({"W": schema})
    assert kind_schema(schemas, _kind("example.com/v1", "W")) is not None
    assert kind_schema(schemas, _kind("example.com/v2", "W")) is None
