"""The queue of keys: each once, in turns, delayed, retried, paused."""

from __future__ import annotations

from gitsync.sandbox.clock import SandboxClock
from gitsync.sandbox.controllers.base import Queue
from gitsync.sandbox.controllers.object_meta import Key
from gitsync.sandbox.errors import ApiError
from tests.sandbox.controllers.virtual_clock import VirtualLoop


class Listener:
    name = "listener"

    def __init__(self) -> None:
        self.seen: list[Key] = []
        self.failures = 0

    def reconcile(self, key: Key) -> None:
        self.seen.append(key)
        if self.failures:
            self.failures -= 1
            raise ApiError(403, "Forbidden", "not yet")


class Bench:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.queue = Queue(SandboxClock(self.loop, 0.0))
        self.listener = Listener()

    def seen(self, seconds: float) -> list[str]:
        self.listener.seen.clear()
        self.loop.advance(seconds)
        return [name for _, name in self.listener.seen]


def test_a_key_that_is_marked_twice_is_reconciled_once() -> None:
    bench = Bench()
    for name in ("a", "b", "a"):
        bench.queue.add(bench.listener, ("", name))
    assert bench.seen(1) == ["a", "b"]


def test_the_earlier_of_two_appointments_stands() -> None:
    bench = Bench()
    bench.queue.add_after(bench.listener, ("", "a"), 10)
    bench.queue.add_after(bench.listener, ("", "a"), 2)
    bench.queue.add_after(bench.listener, ("", "a"), 5)
    assert bench.seen(1.9) == []
    assert bench.seen(0.2) == ["a"]
    assert bench.seen(60) == []


def test_a_refused_reconcile_comes_back_with_growing_delay() -> None:
    bench = Bench()
    bench.listener.failures = 3
    bench.queue.add(bench.listener, ("", "a"))
    assert bench.seen(0.04) == ["a"]
    assert bench.seen(0.05) == ["a"]
    assert bench.seen(0.05) == []
    assert bench.seen(0.1) == ["a"]
    assert bench.seen(10) == ["a"]
    assert bench.seen(60) == []


def test_the_keys_of_a_paused_controller_wait() -> None:
    bench = Bench()
    bench.queue.paused.add("listener")
    bench.queue.add(bench.listener, ("", "a"))
    assert bench.seen(60) == []
    bench.queue.paused.clear()
    bench.queue.wake()
    assert bench.seen(1) == ["a"]
