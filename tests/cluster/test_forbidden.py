"""A 403 names the denied verb, the user and the rule that allows it; admission rules have hints of their own."""

from __future__ import annotations

import pytest

from gitsync.cluster.forbidden import forbidden_hint

CASES = [
    (
        'deployments.apps "web" is forbidden: User "system:serviceaccount:gitsync:deployer" cannot patch resource '
        '"deployments" in API group "apps" in the namespace "shop"',
        "patch on deployments is denied to ServiceAccount gitsync/deployer; add the rule "
        '{apiGroups: ["apps"], resources: ["deployments"], verbs: [create, delete, get, patch]} '
        "to a Role of namespace shop that is bound to it",
    ),
    (
        'configmaps is forbidden: User "ada" cannot list resource "configmaps" in API group "" at the cluster scope',
        "list on configmaps is denied to user ada; add the rule "
        '{apiGroups: [""], resources: ["configmaps"], verbs: [get, list, watch]} to a ClusterRole that is bound to it',
    ),
    (
        'serviceaccounts "x" is forbidden: User "system:serviceaccount:gitsync:gitsync" cannot impersonate resource '
        '"serviceaccounts" in API group "" in the namespace "shop"',
        'resources: ["serviceaccounts"], verbs: [impersonate]}',
    ),
    (
        'pods "web" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=4, limited: pods=4',
        "raise the ResourceQuota compute, or request less",
    ),
    ('pods "a" is forbidden: failed quota: q: must specify limits.cpu for: web', "that the ResourceQuota q counts"),
    (
        'pods "web" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        "pod-security.kubernetes.io/enforce",
    ),
    (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "ada" (groups=["g"]) is attempting to grant RBAC '
        'permissions not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get"]}',
        "escalate and bind",
    ),
    ('admission webhook "check.example.com" denied the request: no', "admission webhook check.example.com requires"),
    (
        "ValidatingAdmissionPolicy 'names' with binding 'all' denied request: no",
        "ValidatingAdmissionPolicy names requires",
    ),
    ('pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2', "LimitRange"),
]


@pytest.mark.parametrize(("message", "hint"), CASES)
def test_each_cause_has_its_hint(message: str, hint: str) -> None:
    assert hint in forbidden_hint(message)


def test_an_unknown_cause_has_none() -> None:
    assert forbidden_hint("it is forbidden for another reason") == ""
