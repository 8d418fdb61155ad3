"""Canaries by the weights of an HTTPRoute, which a gateway or mesh has to accept."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import at
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import annotate, condition, running, status_of
from tests.operator.surroundings import define
from tests.waiting import despite_conflicts, until

GATEWAY = "gateway.networking.k8s.io"
STEPS = [{"weight": 10, "pauseSeconds": 3600}, {"weight": 100}]
ROUTED = {"type": "Canary", "canary": {"steps": STEPS, "traffic": "GatewayAPI"}}


def version(tag: str, **update: Any) -> dict[str, Any]:
    image = f"registry.internal/agents/helper:{tag}"
    # A canary that may still get requests stays for the time of a drain and 10 seconds.
    brief = {"drain": {"exec": {"command": ["true"]}, "timeoutSeconds": 1}}
    return agent(replicas=2, runtime={"image": image}, update={**ROUTED, **update}, lifecycle=brief)


def route(world: World) -> dict[str, Any]:
    return world.get("HTTPRoute", "helper", api=f"{GATEWAY}/v1") or {}


def weights(world: World) -> dict[str, int]:
    return {one["name"]: one["weight"] for one in at(route(world), "spec", "rules", 0, "backendRefs", default=[])}


def accept(world: World, verdict: str = "True", message: str = "") -> None:
    """Report, as a mesh does, whether the newest route holds."""
    live = route(world)
    found = {"type": "Accepted", "status": verdict, "message": message, "reason": "Accepted"}
    found["observedGeneration"] = live["metadata"]["generation"]
    parent = {"parentRef": {"name": "helper"}, "controllerName": "example.com/mesh", "conditions": [found]}
    path = f"/apis/{GATEWAY}/v1/namespaces/shop/httproutes/helper/status"
    world.client.send("PUT", path, {**live, "status": {"parents": [parent]}})


def routed(world: World, member: str, expected: str) -> None:
    """Wait until the condition of the route has this value."""
    until(lambda: condition(world, "TrafficRouted").get(member) == expected, describe=lambda: status_of(world))


def deployment(world: World, name: str) -> tuple[int, int] | None:
    found = world.get("Deployment", name, api="apps/v1")
    return found and (found["spec"]["replicas"], at(found, "status", "readyReplicas", default=0))


def begin(world: World) -> str:
    """Run a first revision, begin a canary of a second one, and return the first."""
    define(world, GATEWAY, "HTTPRoute")
    world.start()
    world.apply(version("1.0"))
    first: str = running(world)["currentRevision"]
    assert weights(world) == {"helper": 100, "helper-canary": 0}
    world.apply(version("1.1"))
    until(lambda: weights(world) == {"helper": 90, "helper-canary": 10}, 20, lambda: status_of(world))
    return first


def test_a_route_divides_the_requests_while_all_serving_pods_stay(world: World) -> None:
    first = begin(world)
    assert (deployment(world, "helper"), deployment(world, "helper-canary")) == ((2, 2), (1, 1))
    routed(world, "reason", "NotAccepted")
    despite_conflicts(lambda: accept(world))
    until(lambda: status_of(world)["rollout"].get("readyAt"))  # the pause begins
    routed(world, "message", "10 % of the requests to the canary")
    assert status_of(world)["currentRevision"] == first
    annotate(world, "helper", promote=status_of(world)["updateRevision"])
    running(world, generation=2)
    until(lambda: weights(world) == {"helper": 100, "helper-canary": 0})
    despite_conflicts(lambda: accept(world))
    until(lambda: deployment(world, "helper-canary") is None)
    assert (weights(world), deployment(world, "helper")) == ({"helper": 100, "helper-canary": 0}, (2, 2))


def test_a_route_that_is_not_accepted_returns_to_the_good_revision(world: World) -> None:
    first = begin(world)
    despite_conflicts(lambda: accept(world, "False", "no such listener"))
    until(lambda: "no such listener" in str(status_of(world)["conditions"]), describe=lambda: status_of(world))
    world.apply(version("1.1", progressDeadlineSeconds=1))
    until(lambda: condition(world, "Stalled").get("reason") == "RolledBack", 20, lambda: status_of(world))
    assert "no such listener" in condition(world, "Stalled")["message"]
    until(lambda: deployment(world, "helper-canary") is None)
    assert (status_of(world)["currentRevision"], weights(world)["helper"]) == (first, 100)


def test_a_canary_by_weights_is_refused_where_routes_are_not_served(world: World) -> None:
    world.start()
    world.apply(version("1.0"))
    first = running(world)["currentRevision"]
    world.apply(version("1.1"))
    until(lambda: condition(world, "Stalled").get("reason") == "KindNotServed", 20, lambda: status_of(world))
    assert "set update.canary.traffic: ReplicaRatio" in condition(world, "Stalled")["message"]
    routed(world, "reason", "KindNotServed")
    assert (status_of(world)["currentRevision"], deployment(world, "helper-canary")) == (first, None)
