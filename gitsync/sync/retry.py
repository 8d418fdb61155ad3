"""Attempts: when a failed sync is tried again."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.apply.types import StepResult
from gitsync.errors import TransientError
from gitsync.sync.cache import ReconcileCache, RetryState
from gitsync.sync.reconcile import Reconcile

_TRANSIENT_LIMIT = 30.0


def record_failure(cache: ReconcileCache, run: Reconcile, failed: Sequence[StepResult], now: float) -> float:
    """
    Count a failure of this input and return the seconds until the next try.

    The application's retry policy says how long; beyond its limit it is tried at the longest delay, for ever, since
    the cluster may change. What only the cluster's state is to blame for is tried again soon, and counts no limit.
    """
    if cache.retry.input != run.input:
        cache.retry = RetryState(run.input)
    attempts, retry = cache.retry, run.app.sync.retry
    backoff = retry.backoff
    attempts.failures += 1
    transient = [result.error for result in failed if isinstance(result.error, TransientError)]
    longest = max(backoff.max, run.app.sync.interval) if attempts.failures > retry.limit else backoff.max
    delay = min(backoff.initial * backoff.factor ** min(attempts.failures - 1, 64), longest)
    if attempts.failures > retry.limit:
        delay = longest
    if failed and len(transient) == len(failed):
        asked = max((error.retry_after or 0.0 for error in transient), default=0.0)
        delay = max(min(delay, _TRANSIENT_LIMIT), asked)
    attempts.retry_at = now + delay
    return delay


def reset(cache: ReconcileCache, run: Reconcile) -> None:
    """Forget the failures, and take what was asked for as carried out; a request of this very moment stands."""
    cache.retry = RetryState(("", 0, ""))
    if cache.requested_by == run.requested_by:
        cache.requested_by = ""
    run.acknowledge_request()
