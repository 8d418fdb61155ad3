"""Pods that run otherwise than declared, with the Pods of a sandbox: reported, restarted, and settled again."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ref_of
from gitsync.plan.running import RESTARTED_AT, Execution
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.waiting import until

SOURCE = "          envFrom:\n            - configMapRef:\n                name: settings\n"


def rotate(world: World, value: str) -> None:
    """Write the ConfigMap as the operator of its content does; Git does not declare it."""
    metadata = {"name": "settings", "namespace": "shop"}
    world.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"x": value}}, "rotation")


def pods(world: World) -> list[dict[str, Any]]:
    return world.status().get("pods") or []


def restarted(world: World) -> Any:
    live = world.get("Deployment", "web", api="apps/v1")
    return at(live, "spec", "template", "metadata", "annotations", RESTARTED_AT)


def test_a_rotated_configuration_restarts_the_workload(world: World) -> None:
    rotate(world, "0")
    commit = world.repo.commit("open", {"shop/web.yaml": deployment("web", replicas=1) + SOURCE})
    world.application(sync={"restartOn": ["ConfigMap"]})
    world.start()
    world.synced(commit)
    until(lambda: world.condition("Ready")["status"] == "True", 15, world.status)
    world.sandbox.advance(2)  # another second than that of the start, which is the precision of the API
    rotate(world, "1")
    until(lambda: restarted(world), describe=world.status)
    # new Pods have the newest content: nothing is left to report, and nothing restarts again
    until(lambda: world.condition("Ready")["status"] == "True" and not pods(world), 15, world.status)

    def reasons() -> list[str]:
        history = world.controller.records.history("gitsync/shop")
        return [step.reason for record in history if record.trigger == "restart" for step in record.steps]

    until(reasons, 15, world.status)
    assert "ConfigMap shop/settings changed" in reasons()[0]
    assert len(reasons()) == 1
    assert world.status()["sync"] == "Synced"


def test_a_pod_that_a_user_entered_is_replaced(world: World) -> None:
    commit = world.repo.commit("open", {"shop/web.yaml": deployment("web", replicas=1)})
    world.application(sync={"modifiedPods": "Replace"})
    world.start()
    world.synced(commit)
    until(lambda: world.condition("Ready")["status"] == "True", 15, world.status)

    def running() -> list[Manifest]:
        """Return the Pods that are not being deleted."""
        live = world.sandbox.call(lambda cluster: [*cluster.everything("shop")])
        return [item for item in live if item["kind"] == "Pod" and not item["metadata"].get("deletionTimestamp")]

    (pod,) = until(running, 15, world.status)
    entered = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]) + timedelta(seconds=1)
    requests = world.controller.requests
    (part,) = until(lambda: requests.pod_entered(ref_of(pod), Execution("ada", "exec", entered)), 15)
    assert part[0] == "gitsync/shop"
    until(lambda: running() and all(uid_of(other) != uid_of(pod) for other in running()), 15, world.status)
    until(lambda: world.condition("Ready")["status"] == "True" and not pods(world), 15, world.status)
