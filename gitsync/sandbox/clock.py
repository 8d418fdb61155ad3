"""The sandbox's clock: real time with an adjustable offset and speed."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from gitsync.kube.times import timestamp

# Seconds of timers in one turn of the loop.
_SLICE = 0.005


class LoopTimers(Protocol):
    """The part of an asyncio loop that the clock uses."""

    def time(self) -> float:
        """Return monotonic seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        """Run the callback after real seconds."""
        ...


class Handle(Protocol):
    """A scheduled callback that can be cancelled."""

    def cancel(self) -> None:
        """Cancel the callback."""
        ...


class SandboxClock:
    """
    Sandbox time is ``epoch + (real - started) * speed``; timers run in order of their sandbox time.

    Setting the clock forward runs at once what has become due.
    """

    def __init__(self, scheduler: LoopTimers, epoch: float) -> None:
        self._scheduler = scheduler
        self._epoch = epoch
        self._started = scheduler.time()
        self._speed = 1.0
        self._timers: list[tuple[float, int, list[Callable[[], None]]]] = []
        self._order = itertools.count()
        self._wakeup: Handle | None = None
        self._stamp = (0, "")

    @property
    def speed(self) -> float:
        """How many sandbox seconds pass in a real one."""
        return self._speed

    def now(self) -> float:
        """Return seconds since the epoch by the sandbox's clock."""
        return self._epoch + (self._scheduler.time() - self._started) * self._speed

    def timestamp(self) -> str:
        """Return the time as RFC 3339 with seconds and ``Z``."""
        # Every write stamps its object; formatting once a second is enough.
        second = int(self.now())
        if self._stamp[0] != second:
            text = timestamp(second)
            self._stamp = (second, text)
        return self._stamp[1]

    def adjust(self, *, now: float | None = None, advance: float = 0.0, speed: float | None = None) -> None:
        """Set the time, move it forward, change the speed; timers keep their sandbox times."""
        self._epoch = (self.now() if now is None else now) + advance
        self._started = self._scheduler.time()
        if speed is not None:
            self._speed = speed
        self._arm()

    def call_later(self, seconds: float, action: Callable[[], None]) -> Callable[[], None]:
        """Run the action after ``seconds`` sandbox seconds; return a function that cancels it."""
        due = self.now() + max(0.0, seconds)
        # Cancelling empties the list: removing from the middle of a heap would cost a search.
        cell = [action]
        heapq.heappush(self._timers, (due, next(self._order), cell))
        if self._timers[0][2] is cell:
            self._arm()
        return cell.clear

    def stop(self) -> None:
        """Forget all timers."""
        self._timers.clear()
        if self._wakeup is not None:
            self._wakeup.cancel()

    def _arm(self) -> None:
        if self._wakeup is not None:
            self._wakeup.cancel()
            self._wakeup = None
        if self._timers and self._speed > 0:
            delay = max(0.0, (self._timers[0][0] - self.now()) / self._speed)
            self._wakeup = self._scheduler.call_later(delay, self._run)

    def _run(self) -> None:
        """Run what is due, for a few milliseconds at most, so that requests are answered in between."""
        self._wakeup = None
        end = perf_counter() + _SLICE
        try:
            # The loop's clock may be a little early; such a timer would only be set again.
            while self._timers and self._timers[0][0] <= self.now() + 1e-4 and perf_counter() < end:
                cell = heapq.heappop(self._timers)[2]
                for action in cell:
                    action()
        finally:  # one failing action must not stop the clock
            self._arm()
