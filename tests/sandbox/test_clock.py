"""The clock: set, sped up, and its timers."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from gitsync.sandbox.clock import SandboxClock


class Handle:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: object) -> bool:
        return False


class Loop:
    """Real time, moved by hand."""

    def __init__(self) -> None:
        self.real = 100.0
        self.waiting: list[tuple[float, Handle]] = []

    def time(self) -> float:
        return self.real

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        handle = Handle(callback)
        heapq.heappush(self.waiting, (self.real + delay, handle))
        return handle

    def pass_time(self, seconds: float) -> None:
        end = self.real + seconds
        while self.waiting and self.waiting[0][0] <= end:
            due, handle = heapq.heappop(self.waiting)
            self.real = max(self.real, due)
            if handle.callback is not None:
                handle.callback()
        self.real = end


def test_timers_run_in_order_of_their_time() -> None:
    loop, ran = Loop(), []
    clock = SandboxClock(loop, 0.0)
    clock.call_later(2, lambda: ran.append("second"))
    clock.call_later(1, lambda: ran.append("first"))
    loop.pass_time(3)
    assert ran == ["first", "second"]


def test_a_timer_called_off_does_not_run() -> None:
    loop, ran = Loop(), []
    clock = SandboxClock(loop, 0.0)
    cancel = clock.call_later(1, lambda: ran.append("x"))
    cancel()
    loop.pass_time(2)
    assert ran == []


def test_moving_the_clock_forward_runs_what_became_due() -> None:
    loop, ran = Loop(), []
    clock = SandboxClock(loop, 0.0)
    clock.call_later(3600, lambda: ran.append("hour"))
    clock.adjust(advance=3600)
    loop.pass_time(0)
    assert ran == ["hour"]
    assert clock.timestamp() == "1970-01-01T01:00:00Z"


def test_a_faster_clock_makes_timers_shorter() -> None:
    loop, ran = Loop(), []
    clock = SandboxClock(loop, 0.0)
    clock.call_later(10, lambda: ran.append("x"))
    clock.adjust(speed=10)
    loop.pass_time(0.9)
    assert ran == []
    loop.pass_time(0.2)
    assert ran == ["x"]
    assert 10.9 < clock.now() < 11.1


def test_a_failing_timer_does_not_stop_the_others() -> None:
    loop, ran = Loop(), []
    clock = SandboxClock(loop, 0.0)

    def fail() -> None:
        raise RuntimeError

    clock.call_later(1, fail)
    clock.call_later(1, lambda: ran.append("next"))
    try:
        loop.pass_time(1)
    except RuntimeError:
        loop.pass_time(1)
    assert ran == ["next"]
