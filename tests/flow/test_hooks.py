"""Hooks run before, with and after a sync, and when it failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitsync.sandbox.faults import FaultKind, InjectedFault
from tests.flow.environment import NAMESPACE, World, completed
from tests.flow.factories import config_map, deployment, job
from tests.waiting import until


def steps(world: World, number: int = 0) -> list[tuple[str, str]]:
    record = world.controller.records.history(f"{NAMESPACE}/shop")[number]
    return [(step.ref.rpartition("/")[2], step.outcome.value) for step in record.steps]


def audited(world: World, outcome: str) -> int:
    """Return how many deletes of Jobs ended so, as the audit says."""
    records = world.controller.records.audit_records(f"{NAMESPACE}/shop", action="prune", outcome=outcome)
    return sum("/Job/" in record.resource for record in records)


def test_hooks_run_in_their_places_and_once(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/before.yaml": job("before", "PreSync"),
            "shop/web.yaml": deployment("web"),
            "shop/after.yaml": job("after", "PostSync"),
            "shop/failed.yaml": job("failed", "SyncFail"),
        },
    )
    world.application()
    world.start()
    world.synced(commit, timeout=30)
    until(lambda: world.controller.records.history(f"{NAMESPACE}/shop"), 10)
    assert steps(world) == [("before", "Succeeded"), ("web", "Succeeded"), ("after", "Succeeded")]
    assert completed(world, "before")
    assert completed(world, "after")
    assert world.get("Job", "failed", api="batch/v1") is None
    before = world.get("Job", "before", api="batch/v1")
    again = world.repo.commit("again", {"shop/web.yaml": deployment("web", image="web:2")})
    world.synced(again, timeout=30)
    until(lambda: len(world.controller.records.history(f"{NAMESPACE}/shop")) == 2, 10)
    after = world.get("Job", "before", api="batch/v1")
    assert before is not None
    assert after is not None
    assert before["metadata"]["uid"] != after["metadata"]["uid"], "a hook runs again with each sync"


def test_a_hook_that_fails_before_the_sync_stops_it_and_runs_the_hooks_for_failures(world: World) -> None:
    world.repo.commit(
        "hooks",
        {
            "shop/before.yaml": job("before", "PreSync", image="tool:crash"),
            "shop/a.yaml": config_map("a", x="1"),
            "shop/failed.yaml": job("failed", "SyncFail"),
        },
    )
    world.application()
    world.start()
    status = world.in_phase("Failed")
    assert world.get("ConfigMap", "a") is None
    until(lambda: world.get("Job", "failed", api="batch/v1"), describe=world.status)
    assert any("before" in problem["object"] for problem in status["problems"])


def test_a_hook_is_deleted_as_its_policy_says(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/before.yaml": job("before", "PreSync", policy="HookSucceeded"),
            "shop/a.yaml": config_map("a", x="1"),
        },
    )
    world.application()
    world.start()
    world.synced(commit, timeout=20)
    until(lambda: world.get("Job", "before", api="batch/v1") is None, 10)
    until(lambda: world.status()["sync"] == "Synced", describe=world.status)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(InjectedFault(FaultKind.THROTTLE, seconds=1), id="429"),
        pytest.param(InjectedFault(FaultKind.ERROR, code=503), id="503"),
        pytest.param(InjectedFault(FaultKind.LOST_REPLY), id="an answer that is lost"),
    ],
)
def test_a_hook_whose_delete_was_not_taken_is_deleted_later(world: World, fault: InjectedFault) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/after.yaml": job("after", "PostSync", policy="HookSucceeded"),
            "shop/a.yaml": config_map("a", x="1"),
        },
    )
    world.sandbox.inject(replace(fault, verb="delete", resource="jobs.batch"))
    world.application()
    world.start()
    world.synced(commit, timeout=20)
    until(lambda: completed(world, "after") or fault.kind is FaultKind.LOST_REPLY, 10)
    until(lambda: audited(world, "Failed") or audited(world, "Succeeded"), 10)
    world.stop()
    world.start()
    until(lambda: audited(world, "Failed") or audited(world, "Succeeded"), 10)
    world.sandbox.clear_faults()
    until(lambda: world.get("Job", "after", api="batch/v1") is None, 20, world.status)
    # at least: it may be requested again before the watch shows that the Job is gone, and names the uid
    until(lambda: audited(world, "Succeeded") >= 1, 20, lambda: audited(world, "Succeeded"))
    until(lambda: world.controller.records.unresolved() == (), 10)
    world.in_phase("Synced")


def test_a_hook_of_two_phases_runs_twice_though_its_delete_between_them_was_not_taken(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/both.yaml": job("both", "PreSync,PostSync", policy="HookSucceeded"),
            "shop/a.yaml": config_map("a", x="1"),
        },
    )
    world.sandbox.inject(InjectedFault(FaultKind.ERROR, code=503, verb="delete", resource="jobs.batch", count=2))
    world.application()
    world.start()

    def is_over() -> bool:
        is_applied = (world.status().get("revision") or {}).get("applied") == commit
        return is_applied and world.get("Job", "both", api="batch/v1") is None

    until(is_over, 30, world.status)
    runs = world.controller.records.audit_records(f"{NAMESPACE}/shop", action="hook", outcome="Succeeded")
    assert len(runs) == 2


def test_a_failed_hook_is_kept_where_only_succeeded_ones_are_to_go(world: World) -> None:
    world.repo.commit("hooks", {"shop/after.yaml": job("after", "PreSync", "tool:crash", policy="HookSucceeded")})
    world.repo.commit("more", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"retry": {"backoff": {"initial": "1h", "max": "1h"}}})
    world.start()
    until(lambda: world.status().get("phase") == "Failed", 20, world.status)
    world.controller.requests.poll_now([f"{NAMESPACE}/shop"])
    assert world.get("Job", "after", api="batch/v1") is not None
    assert audited(world, "Succeeded") == 0


def test_a_sync_that_waits_for_a_hook_goes_on_after_a_restart_and_runs_no_hook_twice(world: World) -> None:
    commit = world.repo.commit(
        "hooks",
        {
            "shop/before.yaml": job("before", "PreSync"),
            "shop/web.yaml": deployment("web"),
            "shop/after.yaml": job("after", "PostSync"),
        },
    )
    world.application()
    world.sandbox.pause("deployment")  # the Deployment is not healthy, so that the sync waits
    world.start()
    until(lambda: world.get("Deployment", "web", api="apps/v1"), 20, world.status)
    before = world.get("Job", "before", api="batch/v1")
    until(lambda: world.status()["operation"]["hooks"][0].get("done") is True, describe=world.status)
    world.stop()
    world.start()
    world.sandbox.resume("deployment")
    world.synced(commit, timeout=30)
    until(lambda: completed(world, "after"), 20, world.status)
    until(lambda: "operation" not in world.status(), 10, world.status)
    assert world.get("Job", "before", api="batch/v1")["metadata"]["uid"] == before["metadata"]["uid"]  # type: ignore[index]


def test_an_unhealthy_sync_runs_no_hook_after_it(world: World) -> None:
    world.repo.commit(
        "hooks", {"shop/web.yaml": deployment("web", image="web:crash"), "shop/after.yaml": job("after", "PostSync")}
    )
    world.application()
    world.start()
    until(lambda: "to be healthy" in world.condition("Reconciling").get("message", ""), 20, world.status)
    assert world.get("Job", "after", api="batch/v1") is None


@pytest.mark.parametrize("code", [503, 403])
def test_the_hook_of_the_last_sync_whose_delete_failed_once_is_deleted_again(world: World, code: int) -> None:
    first = world.repo.commit("hooks", {"shop/before.yaml": job("before", "PreSync")})
    world.application(sync={"retry": {"backoff": {"initial": "1s"}}})
    world.start()
    world.synced(first, timeout=30)
    world.sandbox.inject(InjectedFault(FaultKind.ERROR, code=code, verb="delete", resource="jobs.batch"))
    second = world.repo.commit("again", {"shop/a.yaml": config_map("a", x="1")})
    world.synced(second, timeout=30)
