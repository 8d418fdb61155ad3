"""Causes that a Kubernetes 1.36 API server gave for wrong objects of the control plane's own kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.kinds.system.api_server import validate_api_service, validate_flow_schema, validate_priority_level
from gitsync.sandbox.kinds.system.machines import validate_attachment, validate_csi_node, validate_node
from gitsync.sandbox.kinds.workloads import validate_controller_revision

_RULE = {"apiGroups": ["none"], "resources": ["x"], "verbs": ["get"], "namespaces": ["*"]}
_VALID: dict[Any, dict[str, Any]] = {
    validate_flow_schema: {
        "matchingPrecedence": 9000,
        "priorityLevelConfiguration": {"name": "p"},
        "rules": [{"subjects": [{"kind": "User", "user": {"name": "none"}}], "resourceRules": [_RULE]}],
    },
    validate_priority_level: {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 1,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 5}},
        },
    },
    validate_api_service: {
        "group": "none.example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "service": {"name": "s", "namespace": "n", "port": 443},
    },
    validate_csi_node: {"drivers": [{"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 1}}]},
    validate_attachment: {"attacher": "a.example.com", "nodeName": "n", "source": {"persistentVolumeName": "p"}},
    validate_node: {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "podCIDRs": ["10.9.0.0/24"]},
}


def _object(spec: dict[str, Any]) -> Manifest:
    return {"metadata": {"name": "v1.none.example.com"}, "spec": spec}


def _changed(spec: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(spec)
    *above, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    at: Any = changed
    for part in above:
        at = at[part]
    at[last] = value
    return changed


@pytest.mark.parametrize("validate", _VALID, ids=lambda validate: validate.__name__)
def test_valid_objects_have_no_causes(validate: Any) -> None:
    obj = _object(_VALID[validate])
    assert validate(obj, None) == validate(obj, obj) == []


@pytest.mark.parametrize(
    ("validate", "path", "value", "causes"),
    [
        (validate_flow_schema, "distinguisherMethod", {"type": ""}, ["spec.distinguisherMethod.type NotSupported"]),
        (validate_flow_schema, "rules.0.subjects.0.group", {}, ["spec.rules[0].subjects[0].group Forbidden"]),
        (
            validate_flow_schema,
            "rules.0.nonResourceRules",
            [{}],
            [
                "spec.rules[0].nonResourceRules[0].verbs Required",
                "spec.rules[0].nonResourceRules[0].nonResourceURLs Required",
            ],
        ),
        (validate_priority_level, "limited", None, ["spec.limited Required"]),
        (
            validate_priority_level,
            "limited.limitResponse.queuing.handSize",
            8,
            ["spec.limited.limitResponse.queuing.handSize Invalid"],
        ),
        (
            validate_api_service,
            "service",
            {"port": 443},
            ["spec.service.namespace Required", "spec.service.name Required"],
        ),
        (validate_api_service, "versionPriority", 99999, ["spec.versionPriority Invalid"]),
        (validate_api_service, "service.port", 99999, ["spec.service.port Invalid"]),
        (validate_csi_node, "drivers.0.allocatable.count", -1, ["spec.drivers[0].allocatable.count Invalid"]),
        (validate_csi_node, "drivers.0.nodeID", "", ["spec.drivers[0].nodeID Required"]),
        (validate_attachment, "attacher", "", ["spec.attacher Required"]),
        (validate_attachment, "attacher", "Bad_Value!", ["spec.attacher Invalid"]),
        (
            validate_attachment,
            "source.persistentVolumeName",
            "",
            ["spec.source.persistentVolumeName Required", "spec.source.persistentVolumeName Invalid"],
        ),
        (validate_node, "taints.0.effect", "", ["metadata.taints[0].effect Required"]),
        (validate_node, "taints.0.effect", "-1", ["metadata.taints[0].effect NotSupported"]),
    ],
)
def test_wrong_values_have_the_causes_of_a_real_server(validate: Any, path: str, value: Any, causes: list[str]) -> None:
    found = validate(_object(_changed(_VALID[validate], path, value)), None)
    assert [f"{cause.field} {cause.reason.removeprefix('FieldValue')}" for cause in found] == causes


def test_the_data_of_a_revision_is_an_object_and_never_changes() -> None:
    for data in (None, [], "x"):
        (cause,) = validate_controller_revision({"revision": 1, "data": data}, None)
        assert (cause.field, cause.reason) == ("data", "FieldValueRequired")
    stored = {"revision": 1, "data": {"a": 1}}
    assert validate_controller_revision(stored, None) == validate_controller_revision(stored, stored) == []
    (cause,) = validate_controller_revision({"revision": 1, "data": {"a": 2}}, stored)
    assert (cause.field, cause.reason) == ("data", "FieldValueInvalid")
