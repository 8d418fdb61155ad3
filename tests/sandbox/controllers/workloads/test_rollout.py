"""The arithmetic of rollouts: percentages, fences, and steps that never leave them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.workloads import rollout


def deployment(replicas: int, **rolling: Any) -> Manifest:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {"spec": {"replicas": replicas, "strategy": strategy}, "status": {}}


def replica_set(name: str, replicas: int, available: int = 0) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"replicas": replicas}, "status": {"availableReplicas": available}}


@pytest.mark.parametrize(
    ("value", "total", "up", "down"), [(3, 10, 3, 3), ("25%", 10, 3, 2), ("0%", 10, 0, 0), ("100%", 7, 7, 7)]
)
def test_percentages_are_rounded_as_asked(value: int | str, total: int, up: int, down: int) -> None:
    assert rollout.resolve(value, total, round_up=True) == up
    assert rollout.resolve(value, total, round_up=False) == down


def test_a_rollout_can_always_move() -> None:
    assert rollout.fences(deployment(4, maxSurge=0, maxUnavailable=0)) == (0, 1)
    assert rollout.fences(deployment(1, maxSurge="25%", maxUnavailable="25%")) == (1, 0)


def test_no_more_pods_may_be_missing_than_are_wanted() -> None:
    assert rollout.max_unavailable(deployment(2, maxSurge=0, maxUnavailable=5)) == 2
    assert rollout.max_unavailable(deployment(0, maxSurge=1, maxUnavailable=1)) == 0


def test_pods_that_are_not_ready_go_first() -> None:
    old = [replica_set("a", 3, 3), replica_set("b", 2, 0)]
    new = replica_set("c", 1, 1)
    assert rollout.old_replicas(deployment(4, maxSurge=1, maxUnavailable=1), old, new) == {"a": 2, "b": 0}


def test_a_change_of_size_is_shared_by_the_sizes_of_before() -> None:
    sets = [replica_set("a", 8), replica_set("b", 5)]
    for each in sets:
        each["metadata"]["annotations"] = {rollout.MAXIMUM: "13"}
    assert rollout.proportions(deployment(15, maxSurge=3, maxUnavailable=2), sets) == {"a": 11, "b": 7}
    assert rollout.proportions(deployment(5, maxSurge=3, maxUnavailable=2), sets) == {"a": 5, "b": 3}


@settings(max_examples=200, derandomize=True)
@given(
    total=st.integers(1, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    sizes=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=4),
)
def test_scaling_down_keeps_the_minimum_available(
    total: int, surge: int, unavailable: int, sizes: list[tuple[int, int]]
) -> None:
    made = deployment(total, maxSurge=surge, maxUnavailable=unavailable)
    sets = [replica_set(str(index), size, min(size, ready)) for index, (size, ready) in enumerate(sizes)]
    *old, new = sets
    after = rollout.old_replicas(made, old, new)
    minimum = total - rollout.max_unavailable(made)
    before = rollout.counted(sets, "availableReplicas")
    kept = sum(
        min(after.get(each["metadata"]["name"], each["spec"]["replicas"]), each["status"]["availableReplicas"])
        for each in old
    )
    assert kept + new["status"]["availableReplicas"] >= min(minimum, before)
    assert all(number >= 0 for number in after.values())


@settings(max_examples=200, derandomize=True)
@given(total=st.integers(0, 20), surge=st.integers(0, 5), old=st.integers(0, 30), new=st.integers(0, 20))
def test_scaling_up_never_passes_the_maximum(total: int, surge: int, old: int, new: int) -> None:
    made = deployment(total, maxSurge=surge, maxUnavailable=1)
    number = rollout.new_replicas(made, [replica_set("a", old), replica_set("b", new)], new)
    assert number <= max(new, total)
    assert old + number <= max(old + new, total + rollout.max_surge(made))
