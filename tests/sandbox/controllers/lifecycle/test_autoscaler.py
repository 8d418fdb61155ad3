"""Autoscalers: limits, the settable metric, conditions."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.lifecycle.autoscaler import METRIC
from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, deployment


def autoscaler(low: int = 2, high: int = 5, **annotations: str) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    goal = {"type": "Utilization", "averageUtilization": 80}
    metadata: dict[str, Any] = {"name": "web", "namespace": NAMESPACE}
    if annotations:
        metadata["annotations"] = {f"{METRIC}{name}": value for name, value in annotations.items()}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": low,
            "maxReplicas": high,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": goal}}],
        },
    }


def replicas(world: World) -> int:
    return int(world.get("apps", "Deployment", "web")["spec"]["replicas"])


def live(world: World) -> Manifest:
    return world.get("autoscaling", "HorizontalPodAutoscaler", "web")


def test_a_metric_that_nobody_set_stands_at_its_target(world: World) -> None:
    world.create(deployment(replicas=3))
    world.create(autoscaler())
    world.advance(5)
    assert replicas(world) == 3
    assert conditions(live(world)) == [
        ("AbleToScale", "True", "ReadyForNewScale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
    ]


def test_the_minimum_is_enforced_without_metrics(world: World) -> None:
    world.controllers.behaviour.metrics = False
    world.create(deployment(replicas=1))
    world.create(autoscaler())
    world.advance(0.5)
    assert conditions(live(world)) == [("AbleToScale", "True", "SucceededRescale")]
    assert replicas(world) == 2
    world.advance(5)
    assert conditions(live(world)) == [
        ("AbleToScale", "True", "SucceededGetScale"),
        ("ScalingActive", "False", "FailedGetResourceMetric"),
    ]
    status = live(world)["status"]
    assert (status["currentReplicas"], status["desiredReplicas"]) == (2, 2)
    assert status["currentMetrics"] == [{"type": ""}]


def test_the_scale_subresource_says_who_scaled(world: World) -> None:
    world.create(deployment(replicas=1))
    world.create(autoscaler())
    world.advance(3)
    entries = world.get("apps", "Deployment", "web")["metadata"]["managedFields"]
    scale = [each for each in entries if each.get("subresource") == "scale"]
    assert [(each["manager"], each["fieldsV1"]) for each in scale] == [
        ("kube-controller-manager", {"f:spec": {"f:replicas": {}}})
    ]


def test_the_set_metric_drives_the_size(world: World) -> None:
    world.create(deployment(replicas=2))
    world.create(autoscaler(cpu="160"))
    world.advance(0.5)
    assert replicas(world) == 4
    world.patch("autoscaling", "HorizontalPodAutoscaler", "web", {"metadata": {"annotations": {METRIC + "cpu": "80"}}})
    world.advance(5)
    assert replicas(world) == 4
    assert ("ScalingActive", "True", "ValidMetricFound") in conditions(live(world))
    world.patch("autoscaling", "HorizontalPodAutoscaler", "web", {"metadata": {"annotations": {METRIC + "cpu": "20"}}})
    world.advance(10)
    assert replicas(world) == 2


def test_the_maximum_limits_the_size(world: World) -> None:
    world.create(deployment(replicas=2))
    world.create(autoscaler(cpu="1000"))
    world.advance(5)
    assert replicas(world) == 5
    assert ("ScalingLimited", "True", "TooManyReplicas") in conditions(live(world))


def test_a_missing_target_is_told(world: World) -> None:
    world.create(autoscaler())
    world.advance(1)
    assert conditions(live(world)) == [("AbleToScale", "False", "FailedGetScale")]


def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    world.create(deployment(replicas=1))
    world.create(autoscaler(cpu="80"))
    world.advance(10)
    before = world.writes
    world.advance(600)
    assert world.writes == before
