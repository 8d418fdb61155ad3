"""Rollouts on a sandbox: canary, blue-green, checks, deadlines, and the return to the last good revision."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import annotate, condition, running, serving, status_of
from tests.waiting import until

REVISION = "agents.gitsync.dev/revision"
CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 3600}, {"weight": 100}]}}
CHECKS = {"validate": [{"name": "answers", "http": {"path": "/selftest"}}]}


def version(image: str, **spec: Any) -> dict[str, Any]:
    return agent(runtime={"image": f"registry.internal/agents/helper:{image}"}, **spec)


def replicas(world: World, name: str = "helper") -> tuple[int, int]:
    """Return wanted and ready replicas of a Deployment."""
    found = world.get("Deployment", name, api="apps/v1") or {}
    return found.get("spec", {}).get("replicas", 0), found.get("status", {}).get("readyReplicas", 0)


@contextmanager
def always_ready(world: World, least: int) -> Iterator[None]:
    """Fail when fewer Pods of the Agent than ``least`` were ready at any moment of the block."""
    ended, lowest = threading.Event(), [1_000_000]

    def watch() -> None:
        while not ended.is_set():
            slices = world.client.get("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices")["items"]
            own = [one for one in slices if one["metadata"]["labels"]["kubernetes.io/service-name"] == "helper"]
            ready = [end for one in own for end in one.get("endpoints") or [] if end["conditions"].get("ready")]
            lowest[0] = min(lowest[0], len(ready))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)
    assert lowest[0] >= least


def test_a_canary_runs_beside_and_is_promoted(world: World) -> None:
    world.start()
    world.apply(version("1.0", replicas=4, update=CANARY))
    first = running(world)["currentRevision"]
    with always_ready(world, 4):
        world.apply(version("1.1", replicas=4, update=CANARY))
        until(lambda: replicas(world, "helper-canary") == (2, 2) and replicas(world) == (2, 2), 15)
        until(lambda: (status_of(world).get("rollout") or {}).get("weight") == 50, describe=lambda: status_of(world))
        status = status_of(world)
        assert status["currentRevision"] == first
        assert status["rollout"] | {"startedAt": "", "stepAt": "", "readyAt": ""} == {
            "revision": status["updateRevision"],
            "stage": "Update",
            "track": "stable",
            "step": 1,
            "steps": 2,
            "weight": 50,
            "startedAt": "",
            "stepAt": "",
            "readyAt": "",
        }
        annotate(world, "helper", promote=status["updateRevision"])
        running(world, generation=2)
        until(lambda: world.get("Deployment", "helper-canary", api="apps/v1") is None)
    assert replicas(world) == (4, 4)


def test_a_canary_returns_when_a_user_aborts_it(world: World) -> None:
    world.start()
    world.apply(version("1.0", replicas=2, update=CANARY))
    first = running(world)["currentRevision"]
    with always_ready(world, 2):
        world.apply(version("1.1", replicas=2, update=CANARY))
        until(lambda: replicas(world, "helper-canary") == (1, 1), 15)
        annotate(world, "helper", abort=status_of(world)["updateRevision"])
        until(lambda: world.get("Deployment", "helper-canary", api="apps/v1") is None)
        until(lambda: replicas(world) == (2, 2))
    assert status_of(world)["currentRevision"] == first
    until(lambda: condition(world, "Stalled")["reason"] == "RolledBack")
    assert "a user aborted it" in condition(world, "Stalled")["message"]


def test_a_canary_that_does_not_start_is_removed_at_its_deadline(world: World) -> None:
    update = {**CANARY, "progressDeadlineSeconds": 2}  # of what never starts alone: others take their time
    world.start()
    world.apply(version("1.0", replicas=2, update=CANARY))
    first = running(world)["currentRevision"]
    with always_ready(world, 2):
        world.apply(version("crash", replicas=2, update=update))
        until(lambda: condition(world, "Stalled").get("reason") == "RolledBack", 15)
        until(lambda: world.get("Deployment", "helper-canary", api="apps/v1") is None)
    status = status_of(world)
    assert (status["currentRevision"], status["lastGoodRevision"]) == (first, first)
    assert status["failedRevision"] == status["updateRevision"]
    world.apply(version("1.2", replicas=2, update={**CANARY, "canary": {"steps": [{"weight": 50}]}}))
    running(world, generation=3)


@pytest.mark.parametrize("kind", ["RollingUpdate", "Recreate"])
def test_a_failed_update_returns_to_the_last_good_revision(world: World, kind: str) -> None:
    world.start()
    world.apply(version("1.0", update={"type": kind}))
    first = running(world)["currentRevision"]
    world.apply(version("crash", update={"type": kind, "progressDeadlineSeconds": 2}))
    until(lambda: condition(world, "Stalled").get("reason") == "RolledBack", 15, lambda: status_of(world))
    until(lambda: replicas(world) == (1, 1))
    assert f"helper-{serving(world)[REVISION]}" == first


def test_blue_green_waits_for_a_user_and_switches_at_once(world: World) -> None:
    update = {"type": "BlueGreen", "blueGreen": {"promotion": "Manual", "keepOldSeconds": 1}}
    world.start()
    world.apply(version("1.0", replicas=2, update=update))
    first = running(world)["currentRevision"]
    assert f"helper-{serving(world, 'blue')[REVISION]}" == first
    with always_ready(world, 2):
        world.apply(version("1.1", replicas=2, update=update))
        until(lambda: "to promote" in condition(world, "Reconciling").get("message", ""), 15)
        preview = world.get("Service", "helper-preview") or {}
        assert preview["spec"]["selector"]["agents.gitsync.dev/track"] == "green"
        assert status_of(world)["currentRevision"] == first
        annotate(world, "helper", promote=status_of(world)["updateRevision"])
        until(lambda: (world.get("Service", "helper") or {})["spec"]["selector"]["agents.gitsync.dev/track"] == "green")
        until(lambda: world.get("Deployment", "helper-blue", api="apps/v1") is None, 15)
    running(world, generation=2)


def test_changing_to_blue_green_moves_the_pods_without_a_gap(world: World) -> None:
    world.start()
    world.apply(version("1.0", replicas=2))
    running(world)
    with always_ready(world, 2):
        world.apply(version("1.0", replicas=2, update={"type": "BlueGreen"}))
        until(lambda: world.get("Deployment", "helper", api="apps/v1") is None, 15)
        running(world, generation=2)


def test_checks_run_against_a_preview_before_the_first_request(world: World) -> None:
    world.sandbox.pause("job")  # the preview stays until the checks have ended
    world.start()
    world.apply(version("1.0", lifecycle=CHECKS))
    until(lambda: world.get("Deployment", "helper-preview", api="apps/v1"))
    world.sandbox.resume("job")
    status = running(world)
    assert status["validation"]["result"] == "Passed"
    assert condition(world, "Validated")["status"] == "True"
    until(lambda: world.get("Deployment", "helper-preview", api="apps/v1") is None)
    until(lambda: not world.client.get("/apis/batch/v1/namespaces/shop/jobs")["items"])
