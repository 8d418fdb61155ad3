"""PodDisruptionBudgets: healthy, desired, allowed."""

from __future__ import annotations

from typing import Any

import pytest

from gitsync.objects.manifest import Manifest
from tests.sandbox.controllers.cluster import NAMESPACE, World, conditions, deployment


def budget(**spec: Any) -> Manifest:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 2),
        ({"minAvailable": "50%"}, 2, 2),
        ({"maxUnavailable": 1}, 3, 1),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": 4}, 4, 0),
    ],
)
def test_counts(world: World, spec: dict[str, Any], desired: int, allowed: int) -> None:
    world.create(budget(**spec))
    world.create(deployment(replicas=4))
    world.advance(3)
    status = world.get("policy", "PodDisruptionBudget", "web")["status"]
    numbers = {key: value for key, value in status.items() if isinstance(value, int)}
    assert numbers == {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": 4,
        "desiredHealthy": desired,
        "expectedPods": 4,
    }
    reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    assert conditions(status) == [("DisruptionAllowed", *reason)]


def test_without_pods_nothing_may_be_disrupted(world: World) -> None:
    world.create(budget(minAvailable=1))
    world.advance(1)
    status = world.get("policy", "PodDisruptionBudget", "web")["status"]
    assert (status["disruptionsAllowed"], status["expectedPods"]) == (0, 0)
