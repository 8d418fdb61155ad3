"""A commit that does not become healthy is rolled back, held, or left alone, as the application says."""

from __future__ import annotations

from gitsync.objects.record import Outcome
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import deployment
from tests.waiting import until


def image(world: World) -> str:
    found = world.get("Deployment", "web", api="apps/v1")
    assert found is not None
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


def healthy(world: World, commit: str) -> None:
    world.synced(commit, timeout=20)
    until(lambda: world.status()["revision"].get("good") == commit, 20, world.status)


def test_a_degraded_commit_is_rolled_back_until_git_has_a_newer_one(world: World) -> None:
    good = world.repo.commit("good", {"shop/web.yaml": deployment("web", image="web:1")})
    world.application(sync={"postSync": {"onDegraded": "Rollback", "degradedFor": "0s"}})
    world.start()
    healthy(world, good)
    bad = world.repo.commit("bad", {"shop/web.yaml": deployment("web", image="web:crash")})
    until(lambda: world.status().get("pinned", {}).get("instead") == bad, 20, world.status)
    until(lambda: image(world) == "web:1", 10)
    until(lambda: world.condition("Ready").get("reason") == "RolledBack", 10, world.status)
    until(lambda: "CrashLoopBackOff" in world.condition("Ready")["message"], describe=world.status)
    until(lambda: world.status()["health"] == "Healthy", 20, world.status)
    until(lambda: world.status()["sync"] == "OutOfSync", describe=world.status)
    history = world.controller.records.history
    until(lambda: history(f"{NAMESPACE}/shop")[0].trigger == "rollback", describe=lambda: history(f"{NAMESPACE}/shop"))
    rollback, failed, *_ = history(f"{NAMESPACE}/shop")
    assert rollback.commit.id == good
    assert (failed.commit.id, failed.outcome) == (bad, Outcome.FAILED)
    assert "CrashLoopBackOff" in failed.message
    better = world.repo.commit("better", {"shop/web.yaml": deployment("web", image="web:3")})
    healthy(world, better)
    assert image(world) == "web:3"
    assert "pinned" not in world.status()


def test_a_degraded_commit_is_held_for_a_person_to_look_at(world: World) -> None:
    good = world.repo.commit("good", {"shop/web.yaml": deployment("web", image="web:1")})
    world.application(sync={"postSync": {"onDegraded": "Hold", "degradedFor": "0s"}})
    world.start()
    healthy(world, good)
    world.repo.commit("bad", {"shop/web.yaml": deployment("web", image="web:crash")})
    until(lambda: world.condition("Ready").get("reason") == "Held", 20, world.status)
    assert image(world) == "web:crash"


def test_by_default_a_degraded_commit_is_only_reported(world: World) -> None:
    good = world.repo.commit("good", {"shop/web.yaml": deployment("web", image="web:1")})
    world.application()
    world.start()
    healthy(world, good)
    bad = world.repo.commit("bad", {"shop/web.yaml": deployment("web", image="web:crash")})
    world.synced(bad)
    until(lambda: world.status()["health"] == "Degraded", 20, world.status)
    assert image(world) == "web:crash"
    assert "pinned" not in world.status()
