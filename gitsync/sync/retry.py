"""When a failed sync is retried."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.apply.types import StepResult
from gitsync.errors import TransientError
from gitsync.objects.application import SyncPolicy
from gitsync.sync.cache import RetryState

_TRANSIENT_LIMIT = 30.0


def next_retry(
    before: RetryState, key: tuple[str, int, str], policy: SyncPolicy, failed: Sequence[StepResult], now: float
) -> RetryState:
    """
    Count a failure of this input and return the state with the time of the next retry.

    The delay follows the Application's retry policy; beyond its limit the longest delay is used indefinitely, since
    the cluster may change. Transient errors alone are retried after at most 30 seconds, whatever the limit.
    """
    failures = (before.failures if before.input == key else 0) + 1
    backoff = policy.retry.backoff
    delay = min(backoff.initial * backoff.factor ** min(failures - 1, 64), backoff.max)
    if failures > policy.retry.limit:
        delay = max(backoff.max, policy.interval)
    tried = [result for result in failed if not result.is_blocked]
    transient = [result.error for result in tried if isinstance(result.error, TransientError)]
    if tried and len(transient) == len(tried):
        asked = max((error.retry_after or 0.0 for error in transient), default=0.0)
        delay = max(min(delay, _TRANSIENT_LIMIT), asked)
    return RetryState(key, failures, now + delay)
