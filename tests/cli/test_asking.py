"""Sync, approve, reject, rollback, pin, suspend: what people ask for is done, and only that."""

from __future__ import annotations

import re

from tests.cli.conftest import Shop
from tests.flow.world import until


def phase(shop: Shop, wanted: str) -> None:
    until(lambda: shop.world.status().get("phase") == wanted, 10, shop.world.status)


def test_a_sync_waits_until_it_is_done(shop: Shop) -> None:
    done = shop("sync", "shop", "--timeout", "20")

    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("gitsync/shop: Synced, Healthy")
    assert "requested" in shop("sync", "shop", "--no-wait").out
    spec = shop.world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1")
    assert spec is not None
    assert spec["spec"]["source"]["repoURL"] == shop.world.repo.url  # nothing else was touched


def test_a_sync_that_nobody_carries_out_ends_in_time(shop: Shop) -> None:
    shop.world.stop()

    done = shop("sync", "shop", "--timeout", "0.3")

    assert done.code == 3
    assert "did not end within 0.3 s" in done.err
    assert "is the controller running?" in done.err


def hold(shop: Shop) -> None:
    """Commit what waits for a person: an application that is scaled to nothing."""
    web = (shop.world.repo.clone / "shop" / "web.yaml").read_text()
    shop.world.repo.commit("close", {"shop/web.yaml": web.replace("replicas: 2", "replicas: 0")})
    phase(shop, "AwaitingApproval")


def replicas(shop: Shop) -> int:
    found = shop.world.get("Deployment", "web", api="apps/v1")
    assert found is not None
    return int(found["spec"]["replicas"])


def test_an_approval_lets_exactly_the_held_plan_run(shop: Shop) -> None:
    hold(shop)
    assert "held: 1 dangerous step waits" in shop("plan", "shop").out
    assert shop("sync", "shop").code == 1  # waits for a person, not for time

    done = shop("approve", "shop", "--by", "grace", "--reason", "night")

    assert (done.code, done.err) == (0, "")
    assert "approved by grace" in done.out
    until(lambda: replicas(shop) == 0, 10)
    phase(shop, "Synced")
    records = {record["action"]: record for record in shop("audit", "shop", "-o", "json").json[::-1]}
    assert (records["approve"]["approver"], records["approve"]["reasoning"]) == ("grace", "night")
    assert records["update"]["approver"] == "grace"
    assert shop("approve", "shop").code == 2  # nothing waits any more


def test_a_rejected_plan_does_not_run(shop: Shop) -> None:
    hold(shop)

    done = shop("reject", "shop", "--by", "grace", "--reason", "not today")

    assert done.code == 0
    assert replicas(shop) == 2
    rejected = shop.world.controller.records.rejection("gitsync/shop", _digest(shop))
    assert rejected == ("grace", "not today")


def _digest(shop: Shop) -> str:
    digest: str = shop("plan", "shop", "-o", "json").json["digest"]
    return digest


def test_a_rollback_is_a_real_commit_by_its_author(shop: Shop) -> None:
    done = shop("rollback", "shop", "--author", "Eve <eve@example.com>")

    assert (done.code, done.err) == (0, "")
    shop.world.repo.git("pull", "-q", "origin", "main")
    head = shop.world.repo.git("log", "-1", "--format=%H %an %s").split(" ", 2)
    assert head[1:] == ["Eve", 'Revert "a better prompt"']
    shop.world.synced(head[0])
    prompt = shop.world.get("ConfigMap", "prompt")
    assert prompt is not None
    assert prompt["data"] == {"text": "a"}


def test_a_rollback_can_go_to_a_sync_and_to_a_branch_for_review(shop: Shop) -> None:
    oldest = shop("history", "shop", "-o", "json").json[-1]["id"]

    done = shop("rollback", "shop", "--to", oldest, "--branch", "undo")

    assert done.code == 0
    assert "a better prompt" in done.out
    shop.world.repo.git("fetch", "-q", "origin")
    assert shop.world.repo.git("rev-parse", "origin/main") == shop.second
    assert shop.world.repo.git("show", "origin/undo:shop/prompt.yaml").endswith('text: "a"')


def test_a_rollback_to_nothing_known_is_refused(shop: Shop) -> None:
    done = shop("rollback", "shop", "--to", "fffffff")

    assert done.code == 2
    assert "not among the last 2 commits" in done.err


def test_a_pin_holds_until_it_is_taken_back(shop: Shop) -> None:
    done = shop("pin", "shop", shop.first[:8])

    assert (done.code, done.err) == (0, "")
    assert f"pinned to {shop.first[:12]} the shop opens (Ada)" in done.out
    shop.world.synced(shop.first)
    assert re.search(r"Pinned: +instead of main", shop("status", "shop").out)
    assert shop("pin", "shop", "main").code == 0  # again: what it followed before is still known
    assert shop("unpin", "shop").out == "gitsync/shop follows main again\n"
    shop.world.synced(shop.second)
    assert "is not pinned: it follows main" in shop("unpin", "shop").err
    assert "names no commit" in shop("pin", "shop", "no-such-thing").err


def test_a_suspended_application_goes_on_when_resumed(shop: Shop) -> None:
    assert shop("suspend", "shop").code == 0
    phase(shop, "Suspended")
    assert shop("sync", "shop", "--timeout", "5").code == 0

    assert shop("resume", "shop").code == 0
    phase(shop, "Synced")
