"""All controllers together: without workloads, after a restart, many objects, pausing."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gitsync.objects.manifest import at
from gitsync.sandbox.admission import Plugins
from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.cluster import SandboxCluster
from gitsync.sandbox.controllers import Controllers
from gitsync.sandbox.server import Sandbox
from gitsync.sandbox.storage import ObjectStore
from tests.sandbox.controllers.cluster import World, config_map, deployment, job, owned_by, state_of
from tests.sandbox.controllers.virtual_clock import VirtualLoop


def restarted(world: World) -> World:
    """Return the same cluster as it is after the end of the process and a new start."""
    again = object.__new__(World)
    again.loop = VirtualLoop()
    again.store = ObjectStore(None, world.store.revision)
    for collection in world.store.collections():
        for key, stored in collection.objects.items():
            again.store.load(collection.name, key, stored.revision, stored.json)
    again.clock = SandboxClock(again.loop, world.clock.now())
    again.api = SandboxCluster(again.store, again.clock, lambda cluster: Plugins(cluster, cluster.strategy))
    again.controllers = Controllers(again.api, again.clock)
    again.controllers.start()
    return again


def test_without_workloads_only_what_every_cluster_does_goes_on() -> None:
    world = World(workloads=False)
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.create(deployment())
    world.delete("", "ConfigMap", "owner")
    world.advance(2)
    assert world.absent("", "ConfigMap", "child")
    assert not world.absent("", "ServiceAccount", "default")
    assert world.list("apps", "ReplicaSet") == []
    assert list(world.api.list("", "Node")) == []


def test_a_rollout_goes_on_after_a_restart(world: World) -> None:
    world.create(deployment())
    world.create(job("task:forever"))
    world.advance(0.2)
    after = restarted(world)
    after.advance(5)
    assert after.get("apps", "Deployment", "web")["status"]["availableReplicas"] == 2
    assert len(after.pods()) == 3
    addresses = {pod["status"]["podIP"] for pod in after.pods()}
    assert len(addresses) == 3
    quiet = []
    after.api.subscribe(lambda event, obj, old: quiet.append((event, obj["kind"])))
    after.advance(60)
    assert quiet == []


def test_a_crash_loop_goes_on_after_a_restart(world: World) -> None:
    world.create(deployment("web:crash", replicas=1))
    world.advance(3)
    after = restarted(world)
    after.advance(45)
    (pod,) = after.pods()
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 4


def test_what_lost_its_owner_while_nobody_watched_is_collected_after_a_restart(world: World) -> None:
    world.controllers.pause("garbage")
    owner = world.create(config_map("owner"))
    world.create(config_map("child", ownerReferences=owned_by(owner)))
    world.delete("", "ConfigMap", "owner")
    after = restarted(world)
    after.advance(1)
    assert after.absent("", "ConfigMap", "child")


def test_the_same_actions_give_the_same_history() -> None:
    def history() -> list[tuple[str, str]]:
        world = World()
        seen: list[tuple[str, str]] = []
        world.api.subscribe(lambda event, obj, old: seen.append((event, obj["kind"])))
        world.create(deployment(replicas=3))
        world.advance(3)
        world.patch("apps", "Deployment", "web", {"spec": {"replicas": 1}})
        world.advance(3)
        return seen

    assert history() == history()


def test_an_unknown_controller_cannot_be_paused(world: World) -> None:
    with pytest.raises(KeyError):
        world.controllers.pause("unknown")
    world.controllers.pause("kubelet")
    assert world.controllers.paused == {"kubelet"}


def test_start_and_stop_times_can_be_set(world: World) -> None:
    world.controllers.behaviour.start_delay = 10
    world.create(deployment(replicas=1))
    world.advance(5)
    assert state_of(world.pods()[0]) == "ContainerCreating"
    world.advance(6)
    assert state_of(world.pods()[0]) == "running"


def test_a_sandbox_with_a_folder_goes_on_where_it_was(tmp_path: Path) -> None:
    made = deployment(replicas=1)
    made["metadata"]["namespace"] = "default"

    def available(running: Sandbox) -> int:
        live = running.call(lambda cluster: cluster.get("apps", "Deployment", "default", "web"))
        return int(at(live, "status", "availableReplicas", default=0))

    with Sandbox(tmp_path) as first:
        first.call(lambda cluster: cluster.create(made, manager="test"))
    with Sandbox(tmp_path) as second:
        deadline = time.monotonic() + 60
        while not available(second) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert available(second) == 1
        root = second.call(lambda cluster: cluster.get("", "ConfigMap", "default", "kube-root-ca.crt"))
        assert at(root, "data", "ca.crt", default="").startswith("-----BEGIN CERTIFICATE-----")
