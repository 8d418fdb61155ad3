"""A MultiAgentSystem: waves, topology, channels, references and ordered deletion."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from tests.agents.factories import agent, changed, member, system
from tests.flow.environment import World
from tests.operator.agent_world import API, approve, condition, delete, running, status_of
from tests.waiting import until

DESK = "MultiAgentSystem"


def ready(world: World, generation: int = 1) -> dict[str, Any]:
    def is_ready() -> bool:
        status = status_of(world, "desk", DESK)
        return status.get("phase") == "Running" and status.get("observedGeneration") == generation

    until(is_ready, 20, lambda: status_of(world, "desk", DESK))
    return status_of(world, "desk", DESK)


def exists(world: World, name: str) -> bool:
    return world.get("Agent", f"desk-{name}", api=API) is not None


def test_members_are_created_wave_by_wave(world: World) -> None:
    slow = changed(member("c"), "template.spec.runtime.image", "registry.internal/agents/helper:crash")
    world.start()
    world.apply(system(member("a", "b"), member("b", "c"), slow))
    until(lambda: exists(world, "c"))
    until(lambda: condition(world, "Reconciling", "desk", DESK).get("status") == "True")
    assert not exists(world, "b")
    until(lambda: status_of(world, "desk", DESK)["currentWave"] == 1)
    world.apply(system(member("a", "b"), member("b", "c"), member("c"), entrypoint="a"))
    status = ready(world, generation=2)
    assert status["waves"] == [["c"], ["b"], ["a"]]
    assert status["ready"] == "3/3"
    service = world.get("Service", "desk") or {}
    assert service["spec"]["selector"]["agents.gitsync.dev/agent"] == "desk-a"
    assert status["url"] == "http://desk.shop.svc.cluster.local:8080"


def test_an_update_follows_the_waves_too(world: World) -> None:
    world.start()
    world.apply(system(member("a", "b"), member("b"), defaults={"version": "1"}))
    ready(world)
    broken = {"version": "2", "runtime": {"env": [{"name": "X", "value": "1"}]}}
    crash = changed(member("b"), "template.spec.runtime.image", "registry.internal/agents/helper:crash")
    world.apply(system(member("a", "b"), crash, defaults=broken))
    until(lambda: (world.get("Agent", "desk-b", api=API) or {})["spec"]["version"] == "2")
    until(lambda: condition(world, "Reconciling", "desk", DESK).get("message") == "wave 1 waits for a, b")
    assert (world.get("Agent", "desk-a", api=API) or {})["spec"]["version"] == "1"
    world.apply(system(member("a", "b"), member("b"), defaults=broken))
    ready(world, generation=3)
    assert (world.get("Agent", "desk-a", api=API) or {})["spec"]["version"] == "2"


def test_an_edited_member_runs_nothing_and_is_restored(world: World) -> None:
    world.start()
    world.apply(system(member("a"), defaults={"version": "1"}))
    (row,) = ready(world)["members"]
    assert len(row["permitted"]) == 40
    before = (world.get("Deployment", "desk-a", api="apps/v1") or {})["metadata"]["generation"]
    edit = {"spec": {"version": "2", "runtime": {"image": "registry.internal/agents/evil:1"}}}
    metadata = {"name": "desk-a", "namespace": "shop"}
    world.apply({"apiVersion": API, "kind": "Agent", "metadata": metadata, **edit}, "kubectl-edit")
    until(lambda: _version(world, "a") == "1", 15)
    until(lambda: status_of(world, "desk-a").get("phase") == "Running", 15, lambda: status_of(world, "desk-a"))
    assert (world.get("Deployment", "desk-a", api="apps/v1") or {})["metadata"]["generation"] == before
    # what the system declares is another spec that is permitted then
    world.apply(system(member("a"), defaults={"version": "2"}))
    (row,) = ready(world, generation=2)["members"]
    assert (_version(world, "a"), len(row["permitted"])) == ("2", 40)


def test_members_return_together_when_one_fails(world: World) -> None:
    rollout = {"onFailure": "Rollback"}
    world.start()
    world.apply(system(member("a", "b"), member("b"), defaults={"version": "1"}, rollout=rollout))
    good = ready(world)["lastGoodRevision"]
    broken = changed(member("a", "b"), "template.spec.runtime.image", "registry.internal/agents/helper:crash")
    broken = changed(broken, "template.spec.update", {"type": "RollingUpdate", "progressDeadlineSeconds": 2})
    newer = {"version": "2"}
    world.apply(system(broken, member("b"), defaults=newer, rollout=rollout))
    until(lambda: _version(world, "b") == "2", 15)
    until(lambda: condition(world, "Stalled", "desk", DESK).get("reason") == "RolledBack", 30, lambda: _status(world))
    until(lambda: (_version(world, "a"), _version(world, "b")) == ("1", "1"), 15, lambda: _status(world))
    until(lambda: _status(world)["ready"] == "2/2", 20, lambda: _status(world))
    status = _status(world)
    assert (status["lastGoodRevision"], status["phase"]) == (good, "Degraded")
    assert "a: " in condition(world, "Stalled", "desk", DESK)["message"]
    world.apply(system(member("a", "b"), member("b"), defaults=newer, rollout=rollout))
    until(lambda: _status(world)["lastGoodRevision"] != good, 20, lambda: _status(world))
    assert "failedRevision" not in ready(world, generation=3)
    assert (_version(world, "a"), _version(world, "b")) == ("2", "2")


def _version(world: World, name: str) -> str:
    found = world.get("Agent", f"desk-{name}", api=API) or {}
    return str(found["spec"]["version"])


def _status(world: World) -> dict[str, Any]:
    return status_of(world, "desk", DESK)


def test_channels_are_configured_in_members_and_network_policies(world: World) -> None:
    channels = [{"name": "ask", "type": "A2A", "from": ["a"], "to": ["b"]}]
    world.start()
    world.apply(system(member("a"), member("b"), channels=channels))
    status = ready(world)
    assert status["channels"] == [{"name": "ask", "ready": True}]
    topology = json.loads((world.get("ConfigMap", "desk-topology") or {})["data"]["topology.json"])
    assert topology["channels"][0] | {"timeoutSeconds": 60} == {
        "name": "ask",
        "type": "A2A",
        "from": ["a"],
        "to": ["b"],
        "timeoutSeconds": 60,
        "retries": 0,
    }
    policy = world.get("NetworkPolicy", "desk-b", api="networking.k8s.io/v1") or {}
    assert '"agents.gitsync.dev/agent": "desk-a"' in json.dumps(policy["spec"]["ingress"])
    deployment = world.get("Deployment", "desk-a", api="apps/v1") or {}
    assert "desk-topology" in json.dumps(deployment["spec"]["template"])


def test_an_agent_by_reference_is_only_observed(world: World) -> None:
    world.start()
    world.apply(system({"name": "b", "agentRef": {"name": "helper"}}, member("a", "b")))
    until(lambda: condition(world, "Reconciling", "desk", DESK).get("status") == "True")
    assert not exists(world, "a")
    world.apply(agent())
    running(world)
    ready(world)
    assert "ownerReferences" not in (world.get("Agent", "helper", api=API) or {})["metadata"]
    delete(world, "desk", DESK)
    until(lambda: world.get(DESK, "desk", api=API) is None)
    assert world.get("Agent", "helper", api=API) is not None


def test_members_are_deleted_before_those_that_they_depend_on(world: World) -> None:
    world.start()
    world.apply(system(member("a", "b"), member("b")))
    ready(world)
    held = world.get("Agent", "desk-a", api=API) or {}
    world.apply({**_bare(held), "metadata": {**_bare(held)["metadata"], "finalizers": ["example.com/wait"]}}, "test")
    delete(world, "desk", DESK)
    until(lambda: "deletionTimestamp" in (world.get("Agent", "desk-a", api=API) or {})["metadata"])
    assert "deletionTimestamp" not in (world.get("Agent", "desk-b", api=API) or {})["metadata"]
    world.apply(_bare(held), "test")
    until(lambda: world.get(DESK, "desk", api=API) is None, 15)
    until(lambda: not exists(world, "b"))


@pytest.mark.parametrize("cascade", ["Background", "Foreground"])
def test_a_wave_waits_for_the_pods_of_the_one_before(world: World, cascade: str) -> None:
    world.start()
    world.apply(system(member("a", "b"), member("b")))
    ready(world)
    pod = _held_pod(world, "desk-a")
    delete(world, "desk", DESK, propagationPolicy=cascade)
    until(lambda: "deletionTimestamp" in (world.get("Pod", ref_of(pod).name) or {})["metadata"], 15)
    assert "deletionTimestamp" in (world.get("Agent", "desk-a", api=API) or {})["metadata"]
    assert "deletionTimestamp" not in (world.get("Agent", "desk-b", api=API) or {})["metadata"]
    assert "deletionTimestamp" not in (world.get("Deployment", "desk-b", api="apps/v1") or {})["metadata"]
    world.apply(pod, "test")
    until(lambda: world.get(DESK, "desk", api=API) is None, 15)
    until(lambda: not exists(world, "b") and world.get("Deployment", "desk-b", api="apps/v1") is None, 15)


def _held_pod(world: World, name: str) -> Manifest:
    """Let a finalizer keep the Pod of an Agent, as a long drain does; return what applied removes it."""
    path = f"/api/v1/namespaces/shop/pods?labelSelector=agents.gitsync.dev/agent={name}"
    (pod,) = world.client.get(path)["items"]
    metadata = {"name": pod["metadata"]["name"], "namespace": "shop"}
    bare: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    world.apply({**bare, "metadata": {**metadata, "finalizers": ["example.com/drains"]}}, "test")
    return bare


def test_an_agent_of_another_does_not_hold_a_deletion(world: World) -> None:
    world.apply(agent("desk-a"))
    world.start()
    world.apply(system(member("a")))
    until(lambda: "exists" in condition(world, "Stalled", "desk", DESK).get("message", ""), 15)
    delete(world, "desk", DESK)
    until(lambda: world.get(DESK, "desk", api=API) is None, 15)
    assert exists(world, "a")


def _bare(live: dict[str, Any]) -> dict[str, Any]:
    name = {"name": live["metadata"]["name"], "namespace": live["metadata"]["namespace"]}
    return {"apiVersion": API, "kind": "Agent", "metadata": name}


def test_a_cycle_is_reported_and_creates_nothing(world: World) -> None:
    world.start()
    world.apply(system(member("a", "b"), member("b", "a")))
    until(lambda: condition(world, "Accepted", "desk", DESK).get("status") == "False")
    assert "a -> b -> a" in condition(world, "Accepted", "desk", DESK)["message"]
    assert not exists(world, "a")


def test_a_removed_member_is_deleted(world: World) -> None:
    world.start()
    world.apply(system(member("a"), member("b")))
    ready(world)
    world.apply(system(member("a")))
    until(lambda: condition(world, "Reconciling", "desk", DESK).get("reason") == "AwaitingApproval")
    assert exists(world, "b")
    approve(world, "desk", DESK)
    until(lambda: not exists(world, "b"))
    ready(world, generation=2)
