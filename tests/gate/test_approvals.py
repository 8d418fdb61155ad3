"""Who may see, operate and approve an Application, by the policy that names it."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.gate.approvals import may_operate, may_view
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import parse_policy, policy_named
from gitsync.objects.user import User


def policy(name: str, **require: Any) -> Policy:
    spec = {"applications": [f"gitsync/{name}"], "require": require}
    found = parse_policy({"kind": "Policy", "metadata": {"name": name}, "spec": spec}, "p.yaml")
    assert found is not None
    return found


def user(*groups: str, name: str = "ada") -> User:
    return User(name, groups, is_authenticated=True)


NAMED = policy(
    "shop",
    viewers={"groups": ["team"], "users": ["eve"]},
    operators={"groups": ["ops"]},
    approvers={"groups": ["leads"]},
)


@pytest.mark.parametrize(
    ("person", "views", "operates"),
    [
        (user("team"), True, False),
        (user(name="eve"), True, False),
        (user("ops"), True, True),
        (user("leads"), True, False),
        (user("others"), False, False),
        (User("eve", ("team", "ops")), False, False),
    ],
    ids=["group", "user", "operator", "approver", "other", "unproven name"],
)
def test_viewers_operators_and_approvers_see_an_application(person: User, views: bool, operates: bool) -> None:
    assert (may_view(person, NAMED), may_operate(person, NAMED)) == (views, operates)


def test_without_viewers_everyone_sees_an_application() -> None:
    for found in (Policy(), policy("shop", operators={"groups": ["ops"]})):
        assert may_view(User(""), found)


def test_the_own_policy_of_an_application_names_its_viewers() -> None:
    policies = (NAMED, policy("*", viewers={"groups": ["platform"]}))
    assert may_view(user("team"), policy_named(policies, "gitsync/shop"))
    assert not may_view(user("team"), policy_named(policies, "gitsync/mall"))
    assert may_view(user("platform"), policy_named(policies, "gitsync/mall"))
    assert may_view(User(""), policy_named((), "gitsync/mall"))
