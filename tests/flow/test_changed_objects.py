"""What changed objects cost: an object that stays as declared is the only one that is observed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gitsync.objects.change import Risk
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest, annotations_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.reconciler import Reconciler
from gitsync.sync.repair import Repaired, Repairer
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

NAMES = [f"o{number:02}" for number in range(30)]


@pytest.fixture
def settled(world: World) -> str:
    """Sync an Application of many objects, polled rarely, and return its commit."""
    texts = [config_map(name, x="1") for name in NAMES]
    commit = world.repo.commit("first", {"shop/all.yaml": "---\n".join(texts), "shop/web.yaml": deployment("web")})
    world.namespace("shop")
    world.application(sync={"interval": "1h"})
    world.start()
    world.synced(commit)
    until(lambda: world.status()["health"] == "Healthy", 20, world.status)
    return commit


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the Applications that are reconciled as a whole meanwhile."""
    seen: list[str] = []
    reconcile = Reconciler.reconcile

    def count(self: Reconciler, report: Any, *more: Any) -> None:
        seen.append(report.app.key)
        reconcile(self, report, *more)

    with monkeypatch.context() as patch:
        patch.setattr(Reconciler, "reconcile", count)
        yield seen


def annotate(world: World, name: str, value: str) -> None:
    """Set an annotation that Git does not declare."""
    metadata = {"name": name, "namespace": "shop", "annotations": {"example.com/seen": value}}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def is_shown(world: World, name: str, value: str) -> bool:
    """Whether the view of an object has this value among the fields that Git does not declare."""
    resource = next(each for each in world.view().resources if each.ref == ObjectRef("", "ConfigMap", "shop", name))
    return any(item.live == value for item in resource.foreign)


def status_writes(world: World) -> int:
    return world.sandbox.requests(verb="update", resource="applications.gitsync.dev/status")


def test_events_that_change_nothing_declared_reconcile_only_their_objects(
    world: World, settled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    annotate(world, "o00", "0")
    until(lambda: is_shown(world, "o00", "0"))
    world.quiet()
    before = status_writes(world)
    with counted(monkeypatch) as whole:
        for number in range(1, 6):
            annotate(world, "o03", str(number))
            until(lambda value=str(number): is_shown(world, "o03", value))  # type: ignore[misc]
        world.quiet()
    assert whole == []
    assert status_writes(world) == before
    plan = world.view().plan
    assert plan is not None
    live = next(change.live for change in plan.changes if change.ref.name == "o03")
    assert annotations_of(live or {})["example.com/seen"] == "5"


def test_drift_after_such_events_is_corrected(world: World, settled: str) -> None:
    annotate(world, "o04", "1")
    until(lambda: is_shown(world, "o04", "1"))
    world.apply({**edited("o04"), "data": {"x": "2"}})
    until(lambda: (world.get("ConfigMap", "o04") or {}).get("data") == {"x": "1"})
    world.apply(edited("o05", TRACKING_ID, "gitsync/other:/ConfigMap/shop/o05"))
    until(lambda: annotations_of(world.get("ConfigMap", "o05") or {}).get(TRACKING_ID, "").startswith("gitsync/shop:"))


def test_an_object_that_was_recreated_is_held_by_its_new_uid(world: World, settled: str) -> None:
    before = uid_of(world.get("ConfigMap", "o06") or {})
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/o06", {})
    after = until(lambda: {uid_of(world.get("ConfigMap", "o06") or {})} - {"", before}).pop()
    until(lambda: after in str(world.status()["inventory"]), describe=world.status)


def test_a_workload_that_becomes_unhealthy_is_reported(world: World, settled: str) -> None:
    world.sandbox.pause("deployment")
    live = world.get("Deployment", "web", api="apps/v1") or {}
    failed = {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "stuck"}
    status = {**live["status"], "conditions": [failed]}
    world.cluster.replace({**live, "status": status}, manager="kube-controller-manager", subresource="status")
    until(lambda: world.status()["health"] == "Degraded", describe=world.status)


def edited(name: str, annotation: str = "", value: str = "") -> Manifest:
    annotations = {annotation: value} if annotation else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop", "annotations": annotations},
    }


def test_a_corrected_edit_is_planned_again_alone(world: World, settled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[int] = []
    plan = Planner.plan

    def count(self: Planner, given: Any, target: Any, observation: Any, cache: Any) -> Planned:
        planned.append(len(observation.live))
        return plan(self, given, target, observation, cache)

    monkeypatch.setattr(Planner, "plan", count)
    for name in NAMES[:3]:
        world.quiet()
        planned.clear()
        metadata = {"name": name, "namespace": "shop"}
        world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "2"}})
        until(lambda name=name: (world.get("ConfigMap", name) or {})["data"] == {"x": "1"}, 10)
        world.quiet()
        assert world.status()["phase"] == "Synced"
        assert planned == [len(NAMES) + 1]
    view = world.view()
    assert view.plan is not None
    assert (view.plan.writes, view.plan.risk) == ((), Risk.SAFE)
    assert view.plan.explanation.startswith("Nothing to do: every object")
    before = view.plan.digest
    world.controller.requests.poll_now([view.key])
    # or more: an event that arrives meanwhile plans them once more
    until(lambda: len(planned) >= 2, 10, lambda: planned)
    world.quiet()
    assert (world.view().plan or view.plan).digest == before, "a plan of all objects is the same"


def test_an_edit_during_the_correction_of_another_is_corrected_too(
    world: World, settled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Repairer.run

    def slow(self: Repairer, *given: Any) -> Repaired:
        done = run(self, *given)
        if edits:
            edit(edits.pop())
        return done

    def edit(name: str) -> None:
        metadata = {"name": name, "namespace": "shop"}
        world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": "2"}})

    edits = ["o07"]
    monkeypatch.setattr(Repairer, "run", slow)
    edit("o05")
    for name in ("o05", "o07"):
        until(lambda name=name: not edits and (world.get("ConfigMap", name) or {})["data"] == {"x": "1"}, 10)
    until(lambda: world.status()["phase"] == "Synced", 10, world.status)
