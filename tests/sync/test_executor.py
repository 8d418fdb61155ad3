"""When a failed sync is retried."""

from __future__ import annotations

import pytest

from gitsync.apply.change import StepResult
from gitsync.errors import ClusterUnavailable, GitsyncError, Rejected
from gitsync.objects.application import Retry, RetryBackoff, SyncPolicy
from gitsync.objects.change import Action, Change
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import RetryState
from gitsync.sync.executor import next_retry

REF = ObjectRef("", "ConfigMap", "shop", "a")
POLICY = SyncPolicy(interval="60s", retry=Retry(limit=3, backoff=RetryBackoff(initial="5s", factor=2, max="100s")))


def after(failures: int, error: GitsyncError, commit: str = "c1", now: float = 0.0) -> list[float]:
    """Return the delays in seconds after ``failures`` failures in a row."""
    state, delays = RetryState(), []
    for _ in range(failures):
        state = next_retry(state, (commit, 1, ""), POLICY, [failed(error)], now)
        delays.append(state.retry_at - now)
    return delays


def failed(error: GitsyncError) -> StepResult:
    return StepResult(Change(REF, Action.CREATE), Outcome.FAILED, str(error), error=error)


def test_delays_grow_as_the_policy_says_and_stay_at_the_longest_beyond_its_limit() -> None:
    assert after(6, Rejected("no")) == [5, 10, 20, 100, 100, 100]


def test_another_commit_resets_the_count() -> None:
    state = RetryState(("c1", 1, ""), failures=4)
    state = next_retry(state, ("c2", 1, ""), POLICY, [failed(Rejected("no"))], now=0.0)
    assert (state.failures, state.retry_at) == (1, 5)


def test_the_next_retry_is_due_after_the_delay() -> None:
    assert next_retry(RetryState(), ("c1", 1, ""), POLICY, [failed(Rejected("no"))], now=100.0).retry_at == 105.0


@pytest.mark.parametrize(("asked", "expected"), [(None, 10), (7.0, 10), (45.0, 45)])
def test_transient_errors_are_retried_soon_whatever_the_limit(asked: float | None, expected: float) -> None:
    assert after(10, ClusterUnavailable("away", retry_after=asked))[-1] == expected


def test_steps_that_were_not_tried_do_not_prolong_the_delay_of_a_transient_error() -> None:
    blocked = StepResult(Change(REF, Action.PRUNE), Outcome.FAILED, "not tried: a failed", is_blocked=True)
    state = RetryState(("c1", 1, ""), failures=40)
    results = [failed(ClusterUnavailable("429", retry_after=1.0)), blocked]
    assert next_retry(state, ("c1", 1, ""), POLICY, results, now=0.0).retry_at <= 10.0
    assert next_retry(state, ("c1", 1, ""), POLICY, [failed(Rejected("no")), blocked], now=0.0).retry_at > 30.0
