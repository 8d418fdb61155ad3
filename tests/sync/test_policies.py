"""Who counts as an author of a plan: by the names in commits, and by the keys that signed them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from gitsync.gate.approvals import may_approve
from gitsync.gate.policy_files import PolicySet, parse_policy
from gitsync.objects.application import GitSource
from gitsync.objects.change import Plan
from gitsync.objects.signers import Trust
from gitsync.objects.user import User
from gitsync.sync.policies import Policies
from tests.plan.factories import application, config, plan_of

APP = application()


class SignedCommits:
    """Commits that name another author than the holder of the key that signed them."""

    def __init__(self) -> None:
        self.asked = 0

    def authors(self, source: GitSource, earlier: str, later: str) -> frozenset[str]:
        return frozenset({"Other Author", "else@example.com"})

    def signing_users(self, source: GitSource, earlier: str, later: str, trust: Trust) -> frozenset[str]:
        self.asked += 1
        return frozenset(user for signers in trust for signer in signers for user in signer.users)


def policies(source: SignedCommits, **signer: Any) -> Policies:
    require = {
        "approvers": {"notAuthor": True},
        "signers": [{"keys": ["ssh-ed25519 AAAA"], **signer}],
    }
    policy = parse_policy({"kind": "Policy", "metadata": {"name": "team"}, "spec": {"require": require}}, "p.yaml")
    assert policy is not None
    ports: Any = (SimpleNamespace(resource=lambda *kind: None), None, source)
    return Policies(*ports, PolicySet((policy,)))


def plan(policies: Policies) -> Plan:
    return policies.with_authors(APP, plan_of(APP, [config("settings")], {}), "")


@pytest.mark.parametrize("name", ["mallory", "Mallory"])
def test_the_holder_of_the_key_does_not_approve_the_own_commit(name: str) -> None:
    current = policies(SignedCommits(), users=["mallory"])

    assert not may_approve(APP, plan(current), User(name, is_authenticated=True), current.of(APP))
    assert may_approve(APP, plan(current), User("grace", is_authenticated=True), current.of(APP))
    assert not may_approve(APP, plan(current), User("Other Author", is_authenticated=True), current.of(APP))


def test_signatures_are_read_once_and_only_for_named_users() -> None:
    source = SignedCommits()
    current = policies(source, users=["mallory"])
    for _ in range(3):
        plan(current)
    plan(policies(source))

    assert source.asked == 1


def test_policies_are_matched_once_until_the_set_is_replaced() -> None:
    current = policies(SignedCommits())
    known = current.all_of(APP)

    assert current.all_of(application()) is known
    current.current = PolicySet((replace(current.current.policies[0], applications=("elsewhere/*",)),))
    assert [policy.name for policy in known] == ["team"]
    assert [policy.name for policy in current.all_of(APP)] != ["team"]


def test_an_application_that_changes_its_owner_has_other_policies() -> None:
    current = policies(SignedCommits())
    owned = replace(APP, owner="other/parent")

    assert len(current.all_of(APP)) == 1
    assert len(current.all_of(owned)) == 2
