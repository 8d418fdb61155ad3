"""The server of one API group is down: its objects are left alone and shown, all others are synced as ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from gitsync.objects.conditions import find_condition
from gitsync.render.yaml.reader import read_all
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.http import discovery
from tests.flow.environment import World
from tests.flow.factories import WIDGET, WIDGETS, config_map
from tests.waiting import until

KIND = "widgets.example.com"
API = "example.com/v1"


@pytest.fixture
def first(world: World) -> str:
    """Return the first commit, which is applied: a Widget and two ConfigMaps."""
    world.apply(read_all(WIDGETS, "crd.yaml")[0])
    world.cluster.definitions_changed()
    until(lambda: world.cluster.resource("example.com", "v1", "Widget") is not None, 10)
    files = {f"shop/{name}.yaml": config_map(name, x="1") for name in "ab"}
    commit = world.repo.commit("first", {"shop/widget.yaml": WIDGET, **files})
    world.application(risk={"approval": "Never"})
    world.start()
    world.synced(commit)
    return commit


def take_down(world: World) -> None:
    world.sandbox.inject(InjectedFault(FaultKind.GROUP_UNAVAILABLE, resource=KIND))
    world.sandbox.inject(InjectedFault(FaultKind.DROP_WATCH, verb="watch", resource=KIND, count=1))
    until(lambda: world.status().get("sync") == "Unknown", 10, world.status)


def data(world: World, name: str) -> object:
    return (world.get("ConfigMap", name) or {}).get("data")


def size(world: World) -> object:
    found = world.get("Widget", "w", api=API)
    return found and found["spec"]["size"]


def test_other_objects_are_healed_while_a_group_is_unavailable(world: World, first: str) -> None:
    before = world.status()["inventory"]
    take_down(world)
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: data(world, "a") == {"x": "1"}, 10, world.status)
    until(lambda: world.status()["resources"].get("synced") == 2, describe=world.status)
    status = world.in_phase("Observing")
    assert status["sync"] == "Unknown"
    assert [problem["object"] for problem in status["problems"]] == ["Widget shop/w"]
    assert "kubectl get apiservices" in status["problems"][0]["message"]
    ready = find_condition(status, "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "GroupUnavailable")
    assert status["health"] == "Healthy"
    assert (status["resources"]["synced"], status["resources"].get("missing")) == (2, 0)
    assert len(status["inventory"]) == len(before) == 3
    shown = {resource.ref.name: resource for resource in world.view().resources}
    assert (shown["w"].sync, shown["w"].health.health.value) == ("Unknown", "Unknown")
    assert (shown["a"].sync, shown["b"].sync) == ("Synced", "Synced")
    world.sandbox.clear_faults()
    world.synced(first, timeout=40)
    assert world.sandbox.requests(verb="delete", resource=KIND) == 0


def test_of_a_commit_that_changes_both_the_rest_is_applied_at_once(world: World, first: str) -> None:
    take_down(world)
    written = world.sandbox.requests(verb="patch", resource=KIND)
    changed = {"shop/widget.yaml": WIDGET.replace("3", "4"), "shop/a.yaml": config_map("a", x="2")}
    second = world.repo.commit("second", {**changed, "shop/b.yaml": None})
    until(lambda: data(world, "a") == {"x": "2"} and data(world, "b") is None, 10, world.status)
    until(lambda: world.status()["sync"] == "Unknown", 10, world.status)
    assert world.status()["revision"]["applied"] == first
    assert world.sandbox.requests(verb="patch", resource=KIND) == written
    world.sandbox.clear_faults()
    world.synced(second, timeout=40)
    assert size(world) == 4


def test_an_unobserved_object_that_left_git_is_pruned_once_its_group_recovers(world: World, first: str) -> None:
    take_down(world)
    second = world.repo.commit("second", {"shop/widget.yaml": None, "shop/a.yaml": config_map("a", x="2")})
    until(lambda: data(world, "a") == {"x": "2"}, 10, world.status)
    until(lambda: world.status()["sync"] == "Unknown", 10, world.status)
    assert world.sandbox.requests(verb="delete", resource=KIND) == 0
    world.sandbox.clear_faults()
    world.synced(second, timeout=40)
    assert size(world) is None
    # at least: it may be requested again before the list that was under way shows that it is gone, and names the uid
    assert world.sandbox.requests(verb="delete", resource=KIND) >= 1


def test_a_later_wave_waits_for_an_object_that_is_unobserved(world: World, first: str) -> None:
    take_down(world)
    later = config_map("later", x="1").replace("metadata:", "metadata:\n  annotations: {gitsync.dev/sync-wave: '1'}")
    second = world.repo.commit("second", {"shop/later.yaml": later, "shop/a.yaml": config_map("a", x="2")})
    until(lambda: "to be observed" in str(world.condition("Ready").get("message")), 10, world.status)
    until(lambda: data(world, "a") == {"x": "2"}, describe=world.status)
    assert data(world, "later") is None
    world.sandbox.clear_faults()
    world.synced(second, timeout=40)
    assert data(world, "later") == {"x": "1"}


def test_a_group_that_is_unavailable_at_the_start_holds_up_no_other_object(world: World, first: str) -> None:
    world.stop()
    world.sandbox.inject(InjectedFault(FaultKind.GROUP_UNAVAILABLE, resource=KIND))
    world.repo.commit("second", {"shop/widget.yaml": None, "shop/a.yaml": config_map("a", x="2")})
    world.start()
    until(lambda: data(world, "a") == {"x": "2"}, 10, world.status)
    until(lambda: world.status()["sync"] == "Unknown", 10, world.status)
    world.sandbox.clear_faults()
    until(lambda: size(world) is None, 40, world.status)


def test_a_group_that_was_never_discovered_loses_nothing_of_the_inventory(
    world: World, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that started while the aggregated server was down lists the version as stale, without kinds."""
    world.stop()
    with monkeypatch.context() as patched:
        patched.setattr(discovery, "aggregated", stale(discovery.aggregated))
        second = world.repo.commit("second", {"shop/widget.yaml": None, "shop/a.yaml": config_map("a", x="2")})
        world.start()
        until(lambda: data(world, "a") == {"x": "2"}, 10, world.status)
        unknown = "the kinds of example.com/v1 are not known"
        until(lambda: unknown in str(world.status().get("problems")), describe=world.status)
        assert len(world.status()["inventory"]) == 3
    world.synced(second, timeout=40)
    assert size(world) is None


def stale(listed: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def answer(*args: Any, **options: Any) -> dict[str, Any]:
        found = listed(*args, **options)
        for group in found["items"]:
            if group["metadata"].get("name") == "example.com":
                group["versions"] = [{"version": "v1", "freshness": "Stale"}]
        return found

    return answer


def test_a_deleted_application_waits_for_the_objects_that_are_unobserved(world: World, first: str) -> None:
    take_down(world)
    world.client.send("DELETE", "/apis/gitsync.dev/v1alpha1/namespaces/gitsync/applications/shop", {})
    until(lambda: data(world, "a") is None and data(world, "b") is None, 10, world.status)
    until(lambda: "Widget shop/w" in str(world.status().get("problems")), describe=world.status)
    world.sandbox.clear_faults()
    until(lambda: world.get("Application", "shop", "gitsync", "gitsync.dev/v1alpha1") is None, 40, world.status)
    assert size(world) is None


def test_nothing_is_planned_while_another_kind_is_behind_too(world: World, first: str) -> None:
    take_down(world)
    world.sandbox.inject(InjectedFault(FaultKind.ERROR, verb="watch", resource="configmaps", code=503))
    world.sandbox.inject(InjectedFault(FaultKind.DROP_WATCH, verb="watch", resource="configmaps"))
    until(lambda: "ConfigMap v1 may be out of date" in str(world.condition("Ready").get("message")), 20, world.status)
    written = world.sandbox.requests(verb="patch", resource="configmaps")
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    for _ in range(30):
        time.sleep(0.1)
        assert world.sandbox.requests(verb="patch", resource="configmaps") == written
    world.sandbox.clear_faults()
    world.synced(second, timeout=40)
    assert data(world, "a") == {"x": "2"}
