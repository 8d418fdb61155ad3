"""When a failed sync is tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from gitsync.apply.types import StepResult
from gitsync.errors import ClusterUnavailable, GitsyncError, Rejected
from gitsync.objects.application import Backoff, Retry, SyncPolicy
from gitsync.objects.change import Action, Change
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.reconcile import Reconcile
from gitsync.sync.retry import record_failure, reset

REF = ObjectRef("", "ConfigMap", "shop", "a")
POLICY = SyncPolicy(interval="60s", retry=Retry(limit=3, backoff=Backoff(initial="5s", factor=2, max="100s")))


def run(commit: str = "c1") -> Reconcile:
    made = Reconcile.start({"metadata": {"name": "shop", "generation": 1}}, datetime(2026, 11, 20, tzinfo=UTC))
    made.app = replace(made.app, sync=POLICY)
    made.commit = Commit(commit)
    return made


def failed(error: GitsyncError) -> StepResult:
    return StepResult(Change(REF, Action.CREATE), Outcome.FAILED, str(error), error=error)


def test_delays_grow_as_the_policy_says_and_stay_at_the_longest_beyond_its_limit() -> None:
    cache = ReconcileCache()
    delays = [record_failure(cache, run(), [failed(Rejected("no"))], now=0.0) for _ in range(6)]
    assert delays == [5, 10, 20, 100, 100, 100]


def test_another_commit_starts_afresh() -> None:
    cache = ReconcileCache()
    for _ in range(4):
        record_failure(cache, run("c1"), [failed(Rejected("no"))], now=0.0)
    assert record_failure(cache, run("c2"), [failed(Rejected("no"))], now=0.0) == 5


def test_the_next_try_is_due_after_the_delay() -> None:
    cache = ReconcileCache()
    record_failure(cache, run(), [failed(Rejected("no"))], now=100.0)
    assert cache.retry.retry_at == 105.0


@pytest.mark.parametrize(("asked", "expected"), [(None, 30), (7.0, 30), (45.0, 45)])
def test_what_only_the_cluster_is_to_blame_for_is_tried_again_soon(asked: float | None, expected: float) -> None:
    cache = ReconcileCache()
    error = ClusterUnavailable("away", retry_after=asked)
    for _ in range(9):
        record_failure(cache, run(), [failed(error)], now=0.0)
    assert record_failure(cache, run(), [failed(error)], now=0.0) == expected


def test_a_success_forgets_failures() -> None:
    cache = ReconcileCache()
    record_failure(cache, run(), [failed(Rejected("no"))], now=0.0)
    reset(cache, run())
    assert cache.retry.failures == 0
    assert cache.retry.retry_at == 0.0
