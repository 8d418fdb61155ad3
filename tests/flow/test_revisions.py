"""Which revisions are taken: rewritten branches, emptied paths and refused commits leave the last good one in place."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.cli.applications import request_sync
from gitsync.cli.options import ApplicationTarget
from gitsync.objects.conditions import find_condition
from gitsync.objects.record import AuditRecord
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map
from tests.waiting import until


def data(world: World, name: str = "a") -> Any:
    return (world.get("ConfigMap", name) or {}).get("data")


def refusals(world: World) -> list[AuditRecord]:
    records = world.controller.records.audit_records(f"{NAMESPACE}/shop", limit=100)
    return [record for record in records if record.action == "sync"]


@pytest.mark.parametrize("approval", ["Dangerous", "Never"])
def test_a_rewritten_branch_is_held_until_its_plan_is_approved(world: World, approval: str) -> None:
    first = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    second = world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    world.application(risk={"approval": approval})
    world.start()
    world.synced(second)
    world.repo.git("reset", "-q", "--hard", first)
    world.repo.git("push", "-q", "-f", "origin", "HEAD:main")
    until(lambda: "non-fast-forward" in world.condition("Ready").get("message", ""), 10, world.status)
    until(lambda: world.condition("SourceReady")["reason"] == "RevisionRefused", describe=world.status)
    assert world.status()["revision"]["applied"] == second
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: data(world) == {"x": "2"}, 10, world.status)  # and the last good one is kept up
    assert world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    status = world.in_phase("AwaitingApproval")
    assert f"does not contain the applied commit {second[:12]}" in find_condition(status, "Ready")["message"]
    assert (data(world), status["revision"]["applied"]) == ({"x": "2"}, second)
    world.approve()
    world.synced(first)
    assert data(world) == {"x": "1"}
    assert world.status()["history"][0]["trigger"] == "manual"


def test_a_rewritten_branch_is_held_by_a_push_webhook_and_by_a_request_in_the_cluster(world: World) -> None:
    first = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    second = world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(second)
    world.repo.git("push", "-q", "-f", "origin", f"{first}:main")
    world.controller.requests.poll_now([f"{NAMESPACE}/shop"])
    until(lambda: "non-fast-forward" in world.condition("Ready").get("message", ""), 10, world.status)
    request_sync(world.client, ApplicationTarget(name="shop", namespace=NAMESPACE))
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    world.stop()
    world.start()  # the request is in the cluster, so the plan is held again
    known = world.controller.view.application
    until(lambda: (found := known(f"{NAMESPACE}/shop")) is not None and found.plan is not None, 10, world.status)
    assert world.in_phase("AwaitingApproval")["revision"]["applied"] == second
    assert data(world) == {"x": "2"}


def test_a_branch_that_was_rewritten_during_a_pin_is_held_after_it(world: World) -> None:
    first = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    second = world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    world.application()
    world.start()
    world.synced(second)
    world.application(source={"revision": first})
    world.synced(first)
    world.repo.git("reset", "-q", "--hard", first)
    world.repo.git("push", "-q", "-f", "origin", "HEAD:main")
    rewritten = world.repo.commit("other", {"shop/a.yaml": config_map("a", x="3")})
    world.application()
    held = f"does not contain the applied commit {second[:12]}; it is held, and "
    # the second stays where the answer of a poll before the push still counts
    stays = {f"{held}{commit[:12]} stays applied": (commit, {"x": x}) for commit, x in ((first, "1"), (second, "2"))}

    def is_held() -> bool:
        status = world.status()
        message = str(find_condition(status, "SourceReady").get("message"))
        state = (status["revision"]["applied"], data(world))
        return any(said in message and state == kept for said, kept in stays.items())

    until(is_held, describe=world.status)
    assert "non-fast-forward" in world.condition("Ready")["message"]
    assert world.controller.requests.request_sync(f"{NAMESPACE}/shop", "ada")
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    world.approve()
    world.synced(rewritten)


def test_a_branch_that_moved_forward_during_pins_is_taken_after_them(world: World) -> None:
    first, second, third = (
        world.repo.commit(x, {"shop/a.yaml": config_map("a", x=x)}) for x in ("one", "two", "three")
    )
    world.application()
    world.start()
    world.synced(third)
    for pinned in (second, first):
        world.application(source={"revision": pinned})
        world.synced(pinned)
    fourth = world.repo.commit("four", {"shop/a.yaml": config_map("a", x="four")})
    world.application()
    world.synced(fourth)
    assert "followed" not in world.status()["revision"]


def test_a_branch_that_moves_forward_again_is_taken(world: World) -> None:
    first = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    second = world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    world.application()
    world.start()
    world.synced(second)
    world.repo.git("push", "-q", "-f", "origin", f"{first}:main")
    until(lambda: "non-fast-forward" in world.condition("Ready").get("message", ""), 10, world.status)
    third = world.repo.commit("three", {"shop/a.yaml": config_map("a", x="3")})
    world.synced(third)


def test_an_application_follows_the_highest_tag_of_a_range(world: World) -> None:
    first = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1")})
    world.repo.git("push", "-q", "origin", "HEAD:refs/tags/v1.0.0")
    world.application(source={"revision": "1.x"})
    world.start()
    world.synced(first)
    second = world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    world.repo.git("push", "-q", "origin", "HEAD:refs/tags/v1.1.0", "HEAD:refs/tags/v2.0.0-rc.1")
    world.synced(second)


def test_an_emptied_path_waits_for_approval_and_deletes_nothing(world: World) -> None:
    commit = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1"), "README": "here"})
    world.application()
    world.start()
    world.synced(commit)
    world.repo.commit("gone", {"shop/a.yaml": None})
    until(lambda: world.status().get("phase") == "AwaitingApproval", 10, world.status)
    assert "would delete 1 of 1 objects, because the render is empty" in world.condition("Ready")["message"]
    assert data(world) == {"x": "1"}
    back = world.repo.commit("back", {"shop/a.yaml": config_map("a", x="3")})
    world.synced(back)


def test_a_misspelt_path_is_reported_and_deletes_nothing(world: World) -> None:
    commit = world.repo.commit("one", {"shop/a.yaml": config_map("a", x="1"), "README": "here"})
    world.application()
    world.start()
    world.synced(commit)
    world.application(source={"path": "shpo"})
    until(lambda: world.condition("Rendered").get("status") == "False", 10, world.status)
    assert "the path shpo does not exist" in world.condition("Rendered")["message"]
    world.repo.commit("two", {"shop/a.yaml": config_map("a", x="2")})
    until(lambda: world.status()["revision"]["fetched"] != commit, 10, world.status)
    assert world.in_phase("Failed")["revision"]["applied"] == commit
    assert data(world) == {"x": "1"}
    world.application()
    until(lambda: data(world) == {"x": "2"}, 10, world.status)


def test_a_refusal_stands_in_the_audit_once(world: World) -> None:
    world.repo.commit("bad", {"shop/a.yaml": "kind: [\n"})
    world.application()
    world.start()
    until(lambda: len(refusals(world)) == 1, 10, world.status)
    for _ in range(3):
        world.controller.requests.poll_now([f"{NAMESPACE}/shop"])
    good = world.repo.commit("good", {"shop/a.yaml": config_map("a", x="1")})
    until(lambda: is_synced(world.status(), good), 10, world.status)
    (record,) = refusals(world)
    assert record.outcome.value == "Failed"
    assert record.resource == f"gitsync.dev/Application/{NAMESPACE}/shop"
    assert "shop/a.yaml:" in record.message


def test_a_commit_that_cannot_be_rendered_is_left_by_any_later_commit(world: World) -> None:
    good = {"shop/kustomization.yaml": "resources: [a.yaml]\n", "shop/a.yaml": config_map("a", x="1")}
    first = world.repo.commit("good", good)
    world.application()
    world.start()
    world.synced(first)
    world.repo.commit("broken", {"shop/kustomization.yaml": "resources: [a.yaml\n"})
    until(lambda: world.status().get("phase") == "Failed", 10, world.status)
    world.synced(world.repo.commit("undone, so nothing differs from the last good commit", good))
    world.repo.commit(
        "reads a folder that no commit has", {"shop/kustomization.yaml": "resources: [a.yaml, ../base]\n"}
    )
    until(lambda: world.status().get("phase") == "Failed", 10, world.status)
    base = {"base/kustomization.yaml": "resources: [b.yaml]\n", "base/b.yaml": config_map("b", x="1")}
    world.synced(world.repo.commit("adds the folder", base))
    assert world.get("ConfigMap", "b")
