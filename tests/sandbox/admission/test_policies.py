from __future__ import annotations

from typing import Any

import pytest

from gitsync.sandbox.errors import ApiError
from tests.sandbox.admission.cluster import World, manifest

GROUP = "admissionregistration.k8s.io/v1"
MAPS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


def with_policy(validation: dict[str, Any], actions: tuple[str, ...] = ("Deny",), **spec: Any) -> World:
    world = World()
    constraints = {"resourceRules": [MAPS]}
    world.add(
        GROUP,
        "ValidatingAdmissionPolicy",
        "rule",
        spec={"matchConstraints": constraints, "validations": [validation], **spec},
    )
    binding = {"policyName": "rule", "validationActions": list(actions)}
    world.add(GROUP, "ValidatingAdmissionPolicyBinding", "bound", spec=binding)
    return world


def config(**data: str) -> dict[str, Any]:
    return manifest("v1", "ConfigMap", "c", data=data)


def refusal(world: World, obj: dict[str, Any], old: dict[str, Any] | None = None) -> ApiError:
    with pytest.raises(ApiError) as error:
        world.admit(obj, old)
    return error.value


def test_a_denial_has_the_code_of_its_reason() -> None:
    world = with_policy({"expression": "object.data.size() < 2", "message": "too many keys"})
    world.admit(config(a="1"))
    error = refusal(world, config(a="1", b="2"))
    text = "ValidatingAdmissionPolicy 'rule' with binding 'bound' denied request: too many keys"
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message == f'configmaps "c" is forbidden: {text}'
    assert error.details == {"name": "c", "kind": "configmaps", "causes": [{"message": text}]}
    forbidden = refusal(with_policy({"expression": "false", "reason": "Forbidden"}), config())
    assert (forbidden.code, forbidden.reason) == (403, "Forbidden")
    assert forbidden.message.endswith("denied request: failed expression: false")


def test_a_binding_may_only_warn() -> None:
    world = with_policy({"expression": "false", "messageExpression": "'not ' + object.metadata.name"}, ("Warn",))
    world.admit(config())
    assert world.warnings == ["Validation failed for ValidatingAdmissionPolicy 'rule' with binding 'bound': not c"]


def test_variables_conditions_and_the_old_object_are_there() -> None:
    variables = [
        {"name": "keys", "expression": "object.data.size()"},
        {"name": "many", "expression": "variables.keys > 1"},
    ]
    conditions = [{"name": "updates", "expression": "request.operation == 'UPDATE'"}]
    rule = {"expression": "!variables.many || oldObject.data.size() > 1"}
    world = with_policy(rule, variables=variables, matchConditions=conditions)
    world.admit(config(a="1", b="2"))
    world.admit(config(a="1", b="2"), config(a="1", b="1"))
    assert refusal(world, config(a="1", b="2"), config(a="1")).code == 422


def test_an_expression_without_a_value_counts_by_the_failure_policy() -> None:
    rule = {"expression": "object.data.none == 'x'"}
    error = refusal(with_policy(rule), config(a="1"))
    assert "expression 'object.data.none == 'x'' resulted in error: no such key: none" in error.message
    with_policy(rule, failurePolicy="Ignore").admit(config(a="1"))


def test_parameters_are_looked_up() -> None:
    world = with_policy(
        {"expression": "object.data.size() <= int(params.data.most)"},
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    binding = {"policyName": "rule", "validationActions": ["Deny"], "paramRef": {"name": "limit", "namespace": "scene"}}
    world.add(GROUP, "ValidatingAdmissionPolicyBinding", "bound", spec=binding)
    assert "no params found" in refusal(world, config(a="1")).message
    world.add("v1", "ConfigMap", "limit", data={"most": "1"})
    world.admit(config(a="1"))
    assert refusal(world, config(a="1", b="2")).code == 422


def test_selectors_of_the_binding_narrow_it() -> None:
    world = with_policy({"expression": "false"})
    resources = {"namespaceSelector": {"matchLabels": {"team": "blue"}}}
    binding = {"policyName": "rule", "validationActions": ["Deny"], "matchResources": resources}
    world.add(GROUP, "ValidatingAdmissionPolicyBinding", "bound", spec=binding)
    world.admit(config())
    world.namespace(team="blue")
    assert refusal(world, config()).code == 422


def test_other_resources_are_left_alone() -> None:
    world = with_policy({"expression": "false"})
    world.admit(manifest("v1", "Secret"))
