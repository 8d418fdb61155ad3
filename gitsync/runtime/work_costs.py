"""Whose a piece of work is, and what it costs: its API requests, whatever thread makes them, and its stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class RequestCount:
    """A number that any thread may increment, with all that it is a part of."""

    def __init__(self, whole: RequestCount | None = None) -> None:
        self._whole = whole
        self._lock = threading.Lock()
        self._value = 0

    @property
    def value(self) -> int:
        """The number."""
        return self._value

    def increment(self) -> None:
        """Add one."""
        with self._lock:
            self._value += 1
        if self._whole is not None:
            self._whole.increment()


_CURRENT: ContextVar[RequestCount | None] = ContextVar("request_count", default=None)
_TENANT: ContextVar[str] = ContextVar("tenant", default="")


@contextmanager
def counted_for(count: RequestCount, tenant: str = "") -> Iterator[None]:
    """Count the requests of this thread, and of tasks that it hands to pools, here; they are work of a tenant."""
    token = _CURRENT.set(count)
    tenant_token = _TENANT.set(tenant)
    try:
        yield
    finally:
        _TENANT.reset(tenant_token)
        _CURRENT.reset(token)


def tenant_of_work() -> str:
    """Return the namespace whose Application the current work is for, empty where it is for none."""
    return _TENANT.get()


def count_request() -> None:
    """Count a request for the current Application, if there is one."""
    count = _CURRENT.get()
    if count is not None:
        count.increment()


class Interval(NamedTuple):
    """When a stage ran, in seconds since the start of the work, and the CPU seconds of its thread."""

    stage: str
    began: float
    ended: float
    cpu: float


class StageTimer:
    """
    Keep the intervals of stages; one ends where the next one begins.

    A stage may be entered several times. It is used by one thread.
    """

    def __init__(
        self,
        stage: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._stage = stage
        self._monotonic = monotonic
        self._cpu = cpu
        self._intervals: list[Interval] = []
        self._start = monotonic()
        self._since = (self._start, cpu())

    def enter(self, stage: str) -> None:
        """End the current stage and begin another one; the same one continues."""
        if stage == self._stage:
            return
        now = (self._monotonic(), self._cpu())
        self._end(now)
        self._stage = stage
        self._since = now

    def intervals(self) -> tuple[Interval, ...]:
        """Return the intervals until now; the current stage ends."""
        now = (self._monotonic(), self._cpu())
        self._end(now)
        self._since = now
        return tuple(self._intervals)

    def _end(self, now: tuple[float, float]) -> None:
        began, cpu = self._since
        self._intervals.append(Interval(self._stage, began - self._start, now[0] - self._start, now[1] - cpu))
