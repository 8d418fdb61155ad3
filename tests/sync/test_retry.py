"""When a failed sync is tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gitsync.apply.types import Result
from gitsync.errors import ClusterUnavailable, GitsyncError, Rejected
from gitsync.objects.application import Retry, SyncPolicy
from gitsync.objects.change import Action, Change
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import Memory
from gitsync.sync.reconcile import Turn
from gitsync.sync.retry import count_failure, count_success

REF = ObjectRef("", "ConfigMap", "shop", "a")
POLICY = SyncPolicy(interval=60, retry=Retry(limit=3, initial=5, factor=2, max=100))


def turn(commit: str = "c1") -> Turn:
    made = Turn.of({"metadata": {"name": "shop", "generation": 1}}, datetime(2026, 11, 20, tzinfo=UTC))
    made.app = replace(made.app, sync=POLICY)
    made.commit = Commit(commit)
    return made


def failed(error: GitsyncError) -> Result:
    return Result(Change(REF, Action.CREATE), Outcome.FAILED, str(error), error=error)


def test_delays_grow_as_the_policy_says_and_stay_at_the_longest_beyond_its_limit() -> None:
    memory = Memory()
    delays = [count_failure(memory, turn(), [failed(Rejected("no"))], now=0.0) for _ in range(6)]
    assert delays == [5, 10, 20, 100, 100, 100]


def test_another_commit_starts_afresh() -> None:
    memory = Memory()
    for _ in range(4):
        count_failure(memory, turn("c1"), [failed(Rejected("no"))], now=0.0)
    assert count_failure(memory, turn("c2"), [failed(Rejected("no"))], now=0.0) == 5


def test_the_next_try_is_due_after_the_delay() -> None:
    memory = Memory()
    count_failure(memory, turn(), [failed(Rejected("no"))], now=100.0)
    assert memory.attempts.due == 105.0


@pytest.mark.parametrize(("asked", "expected"), [(None, 30), (7.0, 30), (45.0, 45)])
def test_what_only_the_cluster_is_to_blame_for_is_tried_again_soon(asked: float | None, expected: float) -> None:
    memory = Memory()
    error = ClusterUnavailable("away", retry_after=asked)
    for _ in range(9):
        count_failure(memory, turn(), [failed(error)], now=0.0)
    assert count_failure(memory, turn(), [failed(error)], now=0.0) == expected


def test_a_success_forgets_failures() -> None:
    memory = Memory()
    count_failure(memory, turn(), [failed(Rejected("no"))], now=0.0)
    count_success(memory, turn())
    assert memory.attempts.failures == 0
    assert memory.attempts.due == 0.0
