"""DaemonSets: a pod per node, where it may run, and rolling updates."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from tests.sandbox.controllers.cluster import NAMESPACE, World, template


def daemon_set(image: str = "agent:1", pod: dict[str, Any] | None = None, **spec: Any) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(image, **(pod or {})), **spec},
    }


def images(world: World) -> dict[str, str]:
    return {pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"] for pod in world.pods()}


def test_statuses_count_nodes(world: World) -> None:
    seen = world.statuses("DaemonSet", lambda: world.create(daemon_set()))
    base = {
        "currentNumberScheduled": 2,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 2,
        "observedGeneration": 1,
        "updatedNumberScheduled": 2,
    }
    assert seen[1] == {**base, "numberReady": 0, "numberUnavailable": 2}
    assert seen[-1] == {**base, "numberReady": 2, "numberAvailable": 2}
    assert sorted(images(world)) == ["node-a", "node-b"]


def test_node_selector_limits_the_nodes(world: World) -> None:
    world.create(daemon_set(pod={"nodeSelector": {"kubernetes.io/hostname": "node-b"}}))
    world.advance(2)
    assert sorted(images(world)) == ["node-b"]


def test_a_new_node_gets_a_pod_and_a_tainted_one_none(world: World) -> None:
    world.create(daemon_set())
    world.advance(2)
    for name, taints in (("node-c", []), ("node-d", [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}
        created = world.create(node)
        status = {"allocatable": {"pods": "10", "cpu": "1", "memory": "1Gi"}}
        made = world.api.update({**created, "status": status}, manager="test", subresource="status")
        ready = {**made, "spec": {"taints": taints}}  # without the taint of a node that is not ready
        world.api.update(ready, manager="test")
    world.advance(2)
    assert sorted(images(world)) == ["node-a", "node-b", "node-c"]


def test_update_replaces_one_pod_at_a_time(world: World) -> None:
    world.create(daemon_set())
    world.advance(2)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}}
    seen = world.statuses("DaemonSet", lambda: world.patch("apps", "DaemonSet", "agent", change))
    assert set(images(world).values()) == {"agent:2"}
    assert max(each.get("numberUnavailable", 0) for each in seen) == 1


def test_surge_starts_the_new_pod_first(world: World) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world.create(daemon_set(updateStrategy=strategy))
    world.advance(2)
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "agent:2"}]}}}}
    seen = world.statuses("DaemonSet", lambda: world.patch("apps", "DaemonSet", "agent", change))
    assert set(images(world).values()) == {"agent:2"}
    assert all(each.get("numberUnavailable", 0) == 0 for each in seen)


def test_a_deleted_pod_comes_back_on_its_node(world: World) -> None:
    world.create(daemon_set())
    world.advance(2)
    name = next(pod["metadata"]["name"] for pod in world.pods() if pod["spec"]["nodeName"] == "node-b")
    world.delete("", "Pod", name)
    world.advance(2)
    assert sorted(images(world)) == ["node-a", "node-b"]


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.create(daemon_set())
    world.advance(5)
    before = world.writes
    world.advance(600)
    assert world.writes == before
