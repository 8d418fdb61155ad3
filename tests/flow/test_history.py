"""The record of a sync describes all that it did, and drift is counted in the message that names one object."""

from __future__ import annotations

from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until


def test_the_explanation_is_of_the_whole_sync_not_of_its_last_pass(world: World) -> None:
    first = world.repo.commit("first", {f"shop/{name}.yaml": config_map(name, x="1") for name in "abc"})
    world.application()
    world.start()
    world.synced(first)
    files = {"shop/a.yaml": config_map("a", x="2"), "shop/b.yaml": config_map("b", x="2")}
    second = world.repo.commit("second", {**files, "shop/c.yaml": None, "shop/d.yaml": config_map("d", x="1")})
    world.synced(second)

    record = until(
        lambda: next((done for done in world.controller.records.history() if done.commit.id == second), None)
    )
    assert sorted(step.action for step in record.steps) == ["create", "prune", "update", "update"]
    assert all(word in record.explanation.lower() for word in ("create 1", "update 2", "delete 1")), record.explanation


def test_drift_of_several_objects_names_one_and_counts_the_others(world: World) -> None:
    first = world.repo.commit("first", {f"shop/{name}.yaml": config_map(name, x="1") for name in "abc"})
    world.application(sync={"selfHeal": False})
    world.start()
    world.synced(first)
    for name in "abc":
        world.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "shop"},
                "data": {"x": "9"},
            }
        )

    # a reconcile between two edits counts fewer, so the first message is not yet the one of all three
    expected = "3 objects differ from Git: ConfigMap shop/a and 2 more"
    until(lambda: str(world.condition("Ready").get("message")).startswith(expected), 20, world.status)
