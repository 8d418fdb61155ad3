"""When two values mean the same."""

from __future__ import annotations

import pytest

from gitsync.merge.schema import DEDUCED, Schema, Schemas, builtin, kind_schema
from gitsync.plan.equality import element, indexed, same_value

CORE = "io.k8s.api.core.v1"


def named(name):
    return builtin().named(name)


def field(name, *path):
    schema = named(name)
    for part in path:
        schema = schema.items if part == "[]" else schema.fields[part]
    return schema


QUANTITY = field(f"{CORE}.ResourceRequirements", "limits").elements
SUBSETS = field(f"{CORE}.Endpoints", "subsets")
SUBJECTS = field("io.k8s.api.rbac.v1.RoleBinding", "subjects")
PEERS = field("io.k8s.api.networking.v1.NetworkPolicyIngressRule", "from")
LABELS = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels")
CLAIMS = field("io.k8s.api.apps.v1.StatefulSetSpec", "volumeClaimTemplates")
SECRET = field(f"{CORE}.Secret", "data").elements
SLICE_PORTS = field("io.k8s.api.discovery.v1.EndpointSlice", "ports")
MATCH = field("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "matchResources")
PARAMETER = field("io.k8s.api.admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "paramRef")
FAILURES = field("io.k8s.api.batch.v1.PodFailurePolicy", "rules")
LIMITS = field(f"{CORE}.LimitRangeSpec", "limits")


def custom_bytes():
    return (
        Schemas({})
        .from_crd({"type": "object", "properties": {"key": {"type": "string", "format": "byte"}}})
        .fields["key"]
    )


def duration():
    schema = Schema("duration")
    schema.scalar, schema.format = "string", "duration"
    return schema


A, B = {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}
JANE = {"kind": "User", "name": "jane"}
DISRUPTED = {"type": "DisruptionTarget"}
EVERYWHERE = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
MOST = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Gi"}}
RBAC = {"apiGroup": "rbac.authorization.k8s.io"}


@pytest.mark.parametrize(
    ("schema", "desired", "live", "same"),
    [
        (QUANTITY, "1000m", "1", True),
        (QUANTITY, 1, "1", True),
        (QUANTITY, 0.5, "500m", True),
        (QUANTITY, "1Gi", "1024Mi", True),
        (QUANTITY, "1G", "1Gi", False),
        (QUANTITY, "much", "much", True),
        (QUANTITY, "much", "more", False),
        (duration(), "60m", "1h0m0s", True),
        (duration(), "60m", "1h1s", False),
        (duration(), "soon", "later", False),
        (DEDUCED, 1, 1.0, True),
        (DEDUCED, 1, True, False),
        (DEDUCED, "1", 1, False),
        (DEDUCED, None, {}, True),
        (DEDUCED, [], None, True),
        (DEDUCED, {"a": None}, {}, True),
        (DEDUCED, {"a": 1}, {}, False),
        (DEDUCED, {}, {"a": 1}, False),
        (PEERS, [{"namespaceSelector": {}}], [{}], False),
        (PEERS, [{}], [{"namespaceSelector": {}}], False),
        (LABELS, {}, None, True),
        (DEDUCED, [1, 2], [2, 1], False),
        (DEDUCED, [1], [1, 2], False),
        (SUBSETS, [{"addresses": [A, B]}], [{"addresses": [B, A]}], True),
        (SUBSETS, [{"addresses": [A, A]}], [{"addresses": [A, B]}], False),
        (SUBSETS, [{"ports": [{"port": 1}]}], [{"ports": [{"port": 1, "protocol": "TCP"}]}], True),
        (SUBSETS, [{"ports": [{"port": 1}]}], [{"ports": [{"port": 1, "protocol": "UDP"}]}], False),
        (SUBJECTS, [JANE], [{**JANE, **RBAC}], True),
        (SUBJECTS, [{**JANE, "kind": "ServiceAccount"}], [{**JANE, **RBAC, "kind": "ServiceAccount"}], False),
        (CLAIMS, [{"spec": {}}], [{"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}}], True),
        (CLAIMS, [{"spec": {}}], [{"spec": {"volumeMode": "Block"}}], False),
        (SECRET, "aGVs\nbG8=\n", "aGVsbG8=", True),
        (SECRET, "aGVsbG8=", "aGVsbG9v", False),
        (SECRET, "no base64", "no base64 either", False),
        (custom_bytes(), "aGVs\nbG8=", "aGVsbG8=", False),
        (SLICE_PORTS, [{"port": 80}], [{"name": "", "port": 80, "protocol": "TCP"}], True),
        (SLICE_PORTS, [{"port": 80}], [{"name": "web", "port": 80, "protocol": "TCP"}], False),
        (SUBJECTS, [{**JANE, "namespace": ""}], [{**JANE, **RBAC}], True),
        (MATCH, {}, EVERYWHERE, True),
        (MATCH, {"objectSelector": {"matchLabels": {"a": "b"}}}, EVERYWHERE, False),
        (PARAMETER, {"name": "p"}, {"name": "p", "parameterNotFoundAction": "Deny"}, True),
        (PARAMETER, {"name": "p"}, {"name": "p", "parameterNotFoundAction": "Allow"}, False),
        (FAILURES, [{"onPodConditions": [DISRUPTED]}], [{"onPodConditions": [{**DISRUPTED, "status": "True"}]}], True),
        (
            LIMITS,
            [MOST],
            [{**MOST, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}}],
            True,
        ),
        (LIMITS, [MOST], [{**MOST, "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2", "memory": "1Gi"}}], False),
        (LIMITS, [{"type": "Pod", "max": {"cpu": "2"}}], [{"type": "Pod", "max": {"cpu": "2"}}], True),
    ],
)
def test_values_compare_by_meaning(schema, desired, live, same):
    assert same_value(schema, desired, live) is same


def test_items_have_the_element_of_their_keys():
    ports = field(f"{CORE}.Container", "ports")
    assert element(ports, {"containerPort": 80}) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert element(ports, "text") is None
    assert element(field(f"{CORE}.ServiceAccount", "secrets"), {"kind": "Secret"}) is None
    finalizers = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers")
    assert element(finalizers, "a") == 'v:"a"'
    assert element(finalizers, {"a": 1}) is None


def test_items_that_are_not_distinct_have_no_index():
    env = field(f"{CORE}.Container", "env")
    assert indexed(env, [{"name": "A"}, {"name": "B"}]) == {
        'k:{"name":"A"}': (0, {"name": "A"}),
        'k:{"name":"B"}': (1, {"name": "B"}),
    }
    assert indexed(env, [{"name": "A"}, {"name": "A"}]) is None
    assert indexed(env, ["no map"]) is None


@pytest.mark.parametrize(
    ("api_version", "kind", "known"),
    [
        ("apps/v1", "Deployment", True),
        ("apps/v1beta1", "StatefulSet", True),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", True),
        ("extensions/v1beta1", "Ingress", False),
        ("x.dev/v1", "Widget", False),
    ],
)
def test_a_retired_version_is_read_by_the_one_that_replaced_it(api_version, kind, known):
    assert (kind_schema(builtin(), {"apiVersion": api_version, "kind": kind}) is not None) is known
