"""What an Agent becomes is written by an account; by the controller's own rights only where that is allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitsync.apply.change import impersonated
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.keys import API_VERSION
from gitsync.objects.ref import ObjectRef
from gitsync.operator.child_reconciler import ChildrenReconciler, Owner, WriteRights
from gitsync.ports import Ports
from tests.fakes.ports import FakeClock, FakeCluster, FakeLive, FakeRecords

AGENT = Owner(ObjectRef("agents.gitsync.dev", "Agent", "shop", "helper"), "uid-9", 1)
CLOSED = Policy(controller_rights=False)


def reconciler(rights: WriteRights, **destination: str) -> ChildrenReconciler:
    """Return a reconciler in a cluster with the Application ``team/shop``, which has this destination."""
    cluster = FakeCluster()
    source = {"repoURL": "https://git.example.com/shop.git", "path": "shop"}
    cluster.put(
        {
            "apiVersion": API_VERSION,
            "kind": "Application",
            "metadata": {"name": "shop", "namespace": "team"},
            "spec": {"source": source, "destination": destination},
        }
    )
    parts: Any = (cluster, FakeLive(cluster), FakeRecords(), FakeClock())
    unused: Any = None
    return ChildrenReconciler(Ports(*parts), unused, unused, unused, rights)


def rights(policy: Policy = CLOSED, default: str = "gitsync-deployer") -> WriteRights:
    return WriteRights(lambda app: policy, default)


@pytest.mark.parametrize(
    ("manager", "destination", "policy", "user"),
    [
        ("team/shop", {"serviceAccountName": "deployer"}, CLOSED, "system:serviceaccount:team:deployer"),
        ("team/shop", {"serviceAccountName": "deployer"}, Policy(), "system:serviceaccount:team:deployer"),
        ("team/shop", {}, CLOSED, "system:serviceaccount:shop:gitsync-deployer"),
        ("team/shop", {}, Policy(), ""),
        ("team/gone", {}, CLOSED, "system:serviceaccount:shop:gitsync-deployer"),
        ("", {}, CLOSED, "system:serviceaccount:shop:gitsync-deployer"),
        ("", {}, Policy(), ""),
    ],
)
def test_children_are_written_by_an_account(
    manager: str, destination: dict[str, str], policy: Policy, user: str
) -> None:
    app = reconciler(rights(policy), **destination).writer_of(replace(AGENT, manager=manager))
    assert impersonated(app) == user
    assert app.key == "shop/agent:helper"


def test_what_was_not_permitted_is_written_by_the_same_account() -> None:
    owner = replace(AGENT, manager="team/shop", is_permitted=False)
    app = reconciler(rights(default=""), serviceAccountName="deployer").writer_of(owner)
    assert impersonated(app) == "system:serviceaccount:team:deployer"
    assert app.risk.approval == "Dangerous"


def test_without_any_account_nothing_is_written() -> None:
    children = reconciler(rights(default=""))
    app = children.writer_of(AGENT)
    assert impersonated(app) == ""
    refusal = children.refusal(AGENT, app)
    assert "no ServiceAccount writes for shop/agent:helper" in refusal
    assert "GITSYNC_DEFAULT_SERVICE_ACCOUNT" in refusal
    with_default = reconciler(rights())
    assert with_default.refusal(AGENT, with_default.writer_of(AGENT)) == ""


def test_an_application_that_became_invalid_lends_no_rights() -> None:
    app = reconciler(rights(), serviceAccount="misspelt").writer_of(replace(AGENT, manager="team/shop"))
    assert impersonated(app) == "system:serviceaccount:shop:gitsync-deployer"


def test_rights_of_the_application_that_applied_an_agent_count() -> None:
    """A policy that allows the controller's rights to one Application allows them to its Agents."""

    def policy_of(app: Application) -> Policy:
        return Policy() if app.key == "team/shop" else CLOSED

    allowed = reconciler(WriteRights(policy_of))
    owner = replace(AGENT, manager="team/shop")
    assert allowed.refusal(owner, allowed.writer_of(owner)) == ""
    assert allowed.refusal(AGENT, allowed.writer_of(AGENT)) != ""
