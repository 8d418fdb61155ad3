"""Scheduling: room, selectors, taints, claims, and what is said when no node fits."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.object_meta import condition_of
from tests.sandbox.controllers.cluster import World, claim, pod


def asking(**requests: str) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "web:1", "resources": {"requests": requests}}]


def refusal(world: World, name: str = "p") -> str:
    live = world.get("", "Pod", name)
    condition = condition_of(live, "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert live["status"]["phase"] == "Pending"
    return str(condition["message"])


def test_requests_beyond_the_nodes_are_refused_with_the_reason(world: World) -> None:
    world.create(pod(containers=asking(cpu="1000")))
    world.advance(1)
    message = refusal(world)
    assert message == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    )
    assert ("FailedScheduling", message) in world.events("Pod")


def test_a_pod_moves_in_when_another_leaves(world: World) -> None:
    for name in ("a", "b", "c"):
        world.create(pod(name=name, containers=asking(memory="400Gi")))
    world.advance(1)
    assert refusal(world, "c").startswith("0/2 nodes are available: 2 Insufficient memory.")
    world.delete("", "Pod", "a")
    world.advance(2)
    assert world.get("", "Pod", "c")["spec"]["nodeName"] == "node-a"


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
                    }
                }
            }
        },
    ],
)
def test_selectors_that_no_node_meets(world: World, spec: Manifest) -> None:
    world.create(pod(**spec))
    world.advance(1)
    assert refusal(world).startswith("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
    world.patch("", "Node", "node-b", {"metadata": {"labels": {"disk": "ssd"}}}, namespace="")
    world.advance(1)
    assert world.get("", "Pod", "p")["spec"]["nodeName"] == "node-b"


def test_cordoned_and_tainted_nodes_are_left_out(world: World) -> None:
    world.patch("", "Node", "node-a", {"spec": {"unschedulable": True}}, namespace="")
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    world.patch("", "Node", "node-b", {"spec": {"taints": [taint]}}, namespace="")
    world.create(pod())
    tolerance = [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]
    world.create(pod(name="tolerant", tolerations=tolerance))
    world.advance(1)
    assert refusal(world).startswith(
        "0/2 nodes are available: 1 node(s) had untolerated taint(s) {gpu: yes}, 1 node(s) were unschedulable. "
    )
    assert world.get("", "Pod", "tolerant")["spec"]["nodeName"] == "node-b"


def test_an_unbound_immediate_claim_is_waited_for(world: World) -> None:
    world.create(claim("data", storageClassName="nowhere"))
    world.create(pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]))
    world.advance(1)
    assert refusal(world).startswith("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.")


def test_the_scheduler_owns_nothing_by_binding(world: World) -> None:
    world.create(pod())
    world.advance(1)
    managers = {each["manager"] for each in world.get("", "Pod", "p")["metadata"]["managedFields"]}
    assert managers == {"test", "kubelet"}


def test_gated_pods_and_those_of_other_schedulers_are_left_alone(world: World) -> None:
    world.create(pod(name="gated", schedulingGates=[{"name": "wait.example.com/x"}]))
    world.create(pod(name="other", schedulerName="mine"))
    world.advance(1)
    assert all("nodeName" not in world.get("", "Pod", name)["spec"] for name in ("gated", "other"))
    world.patch("", "Pod", "gated", {"spec": {"schedulingGates": None}})
    world.advance(1)
    assert world.get("", "Pod", "gated")["spec"]["nodeName"] == "node-a"
