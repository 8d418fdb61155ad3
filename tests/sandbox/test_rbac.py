"""RBAC: what rules allow, whom bindings name, and what may be granted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.rbac import GROUP, AccessAttributes, Authorizer
from gitsync.sandbox.users import ApiUser

JANE = ApiUser("jane", ("team", "system:authenticated"))


def authorizer(*rules: dict[str, Any], subjects: list[dict[str, Any]] | None = None, namespace: str = "") -> Authorizer:
    named = [{"kind": "User", "name": "jane"}] if subjects is None else subjects
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    binding = {
        "metadata": {"name": "b", "namespace": namespace},
        "subjects": named,
        "roleRef": {"kind": "ClusterRole", "name": "r"},
    }

    def select(of: str, inside: str) -> Iterable[Manifest]:
        return [binding] if of == kind and inside == namespace else []

    def get(group: str, of: str, inside: str, name: str) -> Manifest | None:
        return {"rules": list(rules)} if (of, name) == ("ClusterRole", "r") else None

    return Authorizer(select, get)


def rule(verbs: str, groups: str, resources: str, *names: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "verbs": verbs.split(),
        "apiGroups": [group.strip("'") for group in groups.split()],
        "resources": resources.split(),
    }
    return {**found, "resourceNames": list(names)} if names else found


@pytest.mark.parametrize(
    ("rules", "wanted", "allowed"),
    [
        (rule("get list", "''", "pods"), AccessAttributes("list", "", "pods"), True),
        (rule("get", "''", "pods"), AccessAttributes("list", "", "pods"), False),
        (rule("*", "*", "*"), AccessAttributes("patch", "apps", "deployments", "scale"), True),
        (rule("get", "''", "pods"), AccessAttributes("get", "", "pods", "log"), False),
        (rule("get", "''", "pods/log"), AccessAttributes("get", "", "pods", "log"), True),
        (rule("get", "''", "*/log"), AccessAttributes("get", "", "pods", "log"), True),
        (rule("get", "apps", "deployments"), AccessAttributes("get", "", "deployments"), False),
        (rule("get", "''", "pods", "a"), AccessAttributes("get", "", "pods", name="a"), True),
        (rule("get", "''", "pods", "a"), AccessAttributes("get", "", "pods", name="b"), False),
        (rule("list", "''", "pods", "a"), AccessAttributes("list", "", "pods"), False),
        ({"verbs": ["get"], "nonResourceURLs": ["/api/*"]}, AccessAttributes("get", path="/api/v1"), True),
        ({"verbs": ["get"], "nonResourceURLs": ["/api"]}, AccessAttributes("get", path="/apis"), False),
        (rule("*", "*", "*"), AccessAttributes("get", path="/api"), False),
    ],
)
def test_rules_allow(rules: dict[str, Any], wanted: AccessAttributes, allowed: bool) -> None:
    assert authorizer(rules).allowed(JANE, wanted) is allowed


@pytest.mark.parametrize(
    ("subject", "user", "named"),
    [
        ({"kind": "Group", "name": "team"}, JANE, True),
        ({"kind": "Group", "name": "jane"}, JANE, False),
        ({"kind": "User", "name": "team"}, JANE, False),
        (
            {"kind": "ServiceAccount", "name": "robot", "namespace": "shop"},
            ApiUser("system:serviceaccount:shop:robot"),
            True,
        ),
    ],
)
def test_bindings_name_their_subjects(subject: dict[str, Any], user: ApiUser, named: bool) -> None:
    found = authorizer(rule("get", "''", "pods"), subjects=[subject])
    assert found.allowed(user, AccessAttributes("get", "", "pods")) is named


def test_a_role_binding_holds_in_its_namespace_only() -> None:
    found = authorizer(rule("get", "''", "pods"), namespace="shop")
    assert found.allowed(JANE, AccessAttributes("get", "", "pods", namespace="shop"))
    assert not found.allowed(JANE, AccessAttributes("get", "", "pods", namespace="other"))
    assert not found.allowed(JANE, AccessAttributes("get", "", "pods"))


def role(*rules: dict[str, Any]) -> Manifest:
    return {"metadata": {"name": "new"}, "rules": list(rules)}


def test_nobody_grants_what_he_does_not_hold() -> None:
    held = authorizer(rule("get list", "''", "pods"))
    held.check_grant(JANE, "clusterroles", role(rule("get", "''", "pods", "one")), None)
    with pytest.raises(ApiError) as refused:
        held.check_grant(JANE, "clusterroles", role(rule("get delete", "''", "pods secrets")), None)
    lines = refused.value.message.splitlines()
    assert lines[0].endswith("is attempting to grant RBAC permissions not currently held:")
    assert sorted(lines[1:]) == [
        '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get", "delete"]}',
    ]


def test_escalate_and_bind_lift_this() -> None:
    may_escalate = authorizer(rule("escalate", GROUP, "clusterroles"))
    may_escalate.check_grant(JANE, "clusterroles", role(rule("*", "*", "*")), None)
    binding = {"metadata": {"name": "b"}, "subjects": [], "roleRef": {"kind": "ClusterRole", "name": "r"}}
    only_bind = authorizer(rule("bind", GROUP, "clusterroles", "r"), rule("get", "''", "pods"))
    only_bind.check_grant(
        ApiUser("joe"), "clusterrolebindings", {**binding, "roleRef": {"kind": "Role", "name": "x"}}, None
    )
    only_bind.check_grant(JANE, "clusterrolebindings", binding, None)
    with pytest.raises(ApiError):
        only_bind.check_grant(ApiUser("joe"), "clusterrolebindings", binding, None)


def test_what_was_granted_before_may_stay() -> None:
    old = role(rule("*", "*", "*"))
    authorizer().check_grant(JANE, "clusterroles", {**old, "metadata": {"name": "new", "labels": {}}}, old)
