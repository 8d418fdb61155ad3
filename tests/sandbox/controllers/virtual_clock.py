"""Virtual time: the part of an event loop that the sandbox's clock uses, moved by the test."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable


class VirtualHandle:
    """A callback that can be called off."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualLoop:
    """Callbacks that run when the test advances the time."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._handles: list[tuple[float, int, VirtualHandle]] = []

    def time(self) -> float:
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> VirtualHandle:
        handle = VirtualHandle(callback)
        heapq.heappush(self._handles, (self._now + delay, next(self._order), handle))
        return handle

    def advance(self, seconds: float) -> None:
        end = self._now + seconds
        while self._handles and self._handles[0][0] <= end:
            due, _, handle = heapq.heappop(self._handles)
            self._now = max(self._now, due)
            if handle.callback is not None:
                handle.callback()
        self._now = end
