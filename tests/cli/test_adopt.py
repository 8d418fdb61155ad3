"""``gitsync adopt``: a patch, or a branch, with what was changed in the cluster."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop
from tests.flow.factories import deployment
from tests.waiting import until


@pytest.fixture
def edited(shop: Shop) -> Shop:
    """A suspended application whose Deployment a user has scaled."""
    world = shop.world
    world.synced(world.repo.commit("Add an agent", {"shop/agent.yaml": deployment("triage")}))
    assert shop("suspend", "shop", "--reason", "incident").code == 0
    until(lambda: world.condition("Ready")["reason"] == "Suspended", 10, world.status)
    scale(shop, 4)
    return shop


def scale(shop: Shop, replicas: int) -> None:
    shop.world.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "triage", "namespace": "shop"},
            "spec": {"replicas": replicas},
        },
        "kubectl-scale",
    )


def test_a_patch_is_printed_without_a_host(edited: Shop) -> None:
    done = edited("adopt", "shop", "--reason", "the queue grew")
    assert done.code == 0, done.err
    assert "take: Deployment shop/triage .spec.replicas: 2 -> 4 (shop/agent.yaml:" in done.err
    assert "Subject: [PATCH] Keep what was changed in the cluster: Deployment shop/triage" in done.out
    assert "+  replicas: 4" in done.out
    assert "by kubectl-scale at " in done.out
    assert "the queue grew" in done.out
    listed = edited("audit", "shop", "-o", "json").json
    assert [item["action"] for item in listed if item["action"] == "adopt"] == ["adopt"]


def test_a_branch_is_pushed_where_one_is_named(edited: Shop) -> None:
    done = edited(
        "adopt", "shop", "deployment/triage", "spec.replicas", "--branch", "keep/triage", "--author", "Ada <a@b.c>"
    )
    assert done.code == 0, done.err
    assert done.out.endswith("to keep/triage\n")
    repo = edited.world.repo
    repo.git("fetch", "--quiet", "origin")
    assert "+  replicas: 4" in repo.git("diff", "origin/main", "origin/keep/triage")
    assert repo.git("log", "-1", "--format=%an <%ae>", "origin/keep/triage") == "Ada <a@b.c>"
    again = edited("adopt", "shop", *("deployment/triage", "spec.replicas"), "--branch", "keep/triage")
    # it is there already, as after a crash
    assert (again.code, again.out) == (0, done.out)
    world_commit = edited.world.repo.git("rev-parse", "origin/main")
    edited.world.repo.git("push", "-q", "-f", "origin", f"{world_commit}:refs/heads/keep/triage")
    again = edited("adopt", "shop", *("deployment/triage", "spec.replicas"), "--branch", "keep/triage")
    assert (again.code, "branch keep/triage exists already; the same may be proposed" in again.err) == (2, True)


def test_another_field_is_left_alone(edited: Shop) -> None:
    assert edited("adopt", "shop", "deployment/triage", "spec.paused").out == "nothing was changed in the cluster\n"


def test_a_corrected_value_comes_from_the_audit(edited: Shop) -> None:
    world = edited.world
    assert edited("resume", "shop", "--reason", "over").code == 0
    until(lambda: world.get("Deployment", "triage", api="apps/v1")["spec"]["replicas"] == 2, 10, world.status)  # type: ignore[index]
    until(lambda: "replicas" in edited("drift", "shop", "--history").out, 10)
    done = edited("adopt", "shop", "deployment/triage")
    assert done.code == 0, done.err
    assert "+  replicas: 4" in done.out
