"""StageTimer: when each stage of one piece of work began and ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple


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
        self._stage, self._since = stage, now

    def intervals(self) -> tuple[Interval, ...]:
        """Return the intervals until now; the current stage ends."""
        now = (self._monotonic(), self._cpu())
        self._end(now)
        self._since = now
        return tuple(self._intervals)

    def _end(self, now: tuple[float, float]) -> None:
        began, cpu = self._since
        self._intervals.append(Interval(self._stage, began - self._start, now[0] - self._start, now[1] - cpu))
