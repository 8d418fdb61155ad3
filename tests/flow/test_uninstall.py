"""Removing gitsync from a cluster deletes nothing of what it manages, however it is removed."""

from __future__ import annotations

import pytest

from gitsync.objects.manifest import Manifest, metadata_of
from tests.agents.factories import agent
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.waiting import until

AGENTS = "agents.gitsync.dev/v1alpha1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def is_absent(world: World, definition: str) -> bool:
    names = [item["metadata"]["name"] for item in world.client.get(DEFINITIONS)["items"]]
    return definition not in names


def data(world: World, name: str = "a") -> Manifest | None:
    return world.get("ConfigMap", name)


def synced(world: World, count: int = 1) -> None:
    files: dict[str, str | None] = {f"shop/{name}.yaml": config_map(name, x="1") for name in "abcdefghijklmnop"[:count]}
    commit = world.repo.commit("first", files)
    world.application()
    world.start()
    world.synced(commit)


def test_objects_stay_when_the_definition_is_deleted_while_it_runs(world: World) -> None:
    synced(world, 12)  # more than maxDeletes, which would wait for an approval and block the definition
    world.client.send("DELETE", f"{DEFINITIONS}/applications.gitsync.dev", {})
    until(lambda: is_absent(world, "applications.gitsync.dev"), 20)
    assert all(data(world, name) for name in "abcdefghijkl")


def test_objects_stay_when_the_namespace_of_the_controller_is_deleted(world: World) -> None:
    synced(world)
    world.client.send("DELETE", f"/api/v1/namespaces/{NAMESPACE}", {})
    until(lambda: world.get("Application", "shop", NAMESPACE, "gitsync.dev/v1alpha1") is None, 20)
    assert data(world)


def test_objects_are_deleted_with_their_application_alone(world: World) -> None:
    synced(world)
    world.client.send("DELETE", f"/apis/gitsync.dev/v1alpha1/namespaces/{NAMESPACE}/applications/shop", {})
    until(lambda: data(world) is None, 20, world.status)


def deployment(world: World) -> Manifest | None:
    return world.get("Deployment", "helper", api="apps/v1")


def with_agent(world: World) -> str:
    """Run an Agent, and return the uid of its Deployment."""
    world.start()
    world.apply(agent(replicas=1))
    until(lambda: (world.get("Agent", "helper", api=AGENTS) or {}).get("status", {}).get("phase") == "Running", 30)
    live = deployment(world)
    assert live is not None
    return str(metadata_of(live)["uid"])


@pytest.mark.parametrize("definition", ["agents", "multiagentsystems"])
def test_what_an_agent_runs_stays_when_definitions_are_deleted(world: World, definition: str) -> None:
    uid = with_agent(world)
    world.client.send("DELETE", f"{DEFINITIONS}/{definition}.agents.gitsync.dev", {})
    until(lambda: is_absent(world, f"{definition}.agents.gitsync.dev"), 30)
    world.sandbox.advance(60)
    live = deployment(world)
    assert live is not None
    assert metadata_of(live)["uid"] == uid
    assert bool(metadata_of(live).get("ownerReferences")) is (definition != "agents")


def test_what_an_agent_runs_is_deleted_with_the_agent_alone(world: World) -> None:
    with_agent(world)
    world.client.send("DELETE", f"/apis/{AGENTS}/namespaces/shop/agents/helper", {})
    until(lambda: deployment(world) is None, 20)
