"""Writes that the API server answers late hold up neither other Applications nor the rest of their own."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from gitsync.objects.conditions import find_condition
from gitsync.objects.record import Outcome
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sync.input import ReconcileInput
from gitsync.sync.planner import Planned, Planner
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map, job
from tests.waiting import until

OLD = 10
SLOW = 6.0
"""Seconds until a slow write is answered; more than a worker waits for it."""


def synced(world: World, name: str = "shop") -> None:
    until(lambda: world.status(name).get("sync") == "Synced", 60, lambda: world.status(name))


def slow(world: World, verb: str, name: str, count: int = 1, seconds: float = SLOW) -> None:
    world.sandbox.inject(InjectedFault(FaultKind.LATENCY, verb=verb, name=name, count=count, seconds=seconds))


def edit(world: World, name: str) -> None:
    path = f"/api/v1/namespaces/shop/configmaps/{name}"
    live = world.client.get(path)
    world.client.send("PUT", path, {**live, "data": {"x": "edited"}})


def is_repaired(world: World, name: str) -> bool:
    return bool((world.get("ConfigMap", name) or {})["data"]["x"] == "1")


def outcomes(world: World, name: str) -> list[Outcome]:
    records = world.controller.records.audit_records(f"{NAMESPACE}/shop", limit=1000)
    return [record.outcome for record in reversed(records) if record.resource.endswith(f"/{name}")]


def test_slow_deletions_hold_up_no_repair(world: World) -> None:
    kept = "---\n".join(config_map(f"kept{number}", x="1") for number in range(OLD))
    old = {f"shop/old{number}.yaml": config_map(f"old{number}", x="1") for number in range(OLD)}
    ours = {"shop/a.yaml": config_map("a", x="1"), "shop/kept.yaml": kept, **old}
    world.repo.commit("first", {**ours, "other/b.yaml": config_map("b", x="1")})
    world.start(workers=1, writes=2)
    for name in ("shop", "other"):
        world.application(name, risk={"approval": "Never"}, destination={"namespace": "shop"})
        until(lambda name=name: world.status(name).get("sync") == "Synced", 60, lambda name=name: world.status(name))  # type: ignore[misc]
    slow(world, "delete", "", count=0, seconds=2 * SLOW)  # two at a time, so that all of them take a minute
    commit = world.repo.commit("less", dict.fromkeys(old))
    until(lambda: "API server to answer the write of ConfigMap shop/old" in str(world.status()), 30, world.status)

    for name in ("b", "a"):
        edit(world, name)
        until(partial(is_repaired, world, name), 20, world.status)
    assert any(world.get("ConfigMap", f"old{number}") for number in range(OLD)), (
        "the deletions are slower than the repairs"
    )

    world.sandbox.clear_faults()
    until(lambda: world.status().get("phase") == "Synced", 60, world.status)
    history = world.controller.records.history(f"{NAMESPACE}/shop")
    (record,) = [one for one in history if one.commit.id == commit and one.trigger != "drift"]
    assert record.outcome is Outcome.SUCCEEDED
    audit = world.controller.records.audit_records(f"{NAMESPACE}/shop", action="prune", limit=1000)
    pruned = {one.resource for one in audit if one.outcome is Outcome.SUCCEEDED}
    assert pruned >= {f"/ConfigMap/shop/old{number}" for number in range(OLD)}
    for number in range(OLD):
        assert outcomes(world, f"old{number}")[-2:] == [Outcome.INTENDED, Outcome.SUCCEEDED]


def test_a_sync_that_waits_for_answers_is_planned_when_it_has_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of all objects each time that a worker gives up waiting would slow the writes down."""
    plans, plan = list[str](), Planner.plan

    def counted(self: Planner, given: ReconcileInput, *more: Any) -> Planned:
        plans.append(given.app.key)
        return plan(self, given, *more)

    monkeypatch.setattr(Planner, "plan", counted)
    world.repo.commit("first", {f"shop/{name}.yaml": config_map(name, x="1") for name in "abc"})
    world.start()
    slow(world, "patch", "b")
    world.application()
    synced(world)
    assert outcomes(world, "b") == [Outcome.INTENDED, Outcome.SUCCEEDED]
    assert len(plans) == 2


def test_a_late_refusal_fails_its_sync(world: World) -> None:
    world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.start()
    world.application()
    synced(world)
    slow(world, "patch", "b", count=0)
    world.sandbox.inject(InjectedFault(FaultKind.ERROR, verb="patch", name="b", code=422))
    world.repo.commit("refused", {"shop/b.yaml": config_map("b", x="1")})
    message = find_condition(world.in_phase("Failed"), "Ready")["message"]
    assert "ConfigMap shop/b: injected by a fault" in message
    assert outcomes(world, "b")[:2] == [Outcome.INTENDED, Outcome.FAILED]


def test_a_hook_that_is_accepted_late_runs_once(world: World) -> None:
    slow(world, "patch", "hook")
    world.repo.commit("hook", {"shop/a.yaml": config_map("a", x="1"), "shop/hook.yaml": job("hook", "PreSync")})
    world.start()
    world.application()
    synced(world)
    assert outcomes(world, "hook").count(Outcome.INTENDED) == 1
