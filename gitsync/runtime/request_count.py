"""API requests, counted for the Application that they are made for, whatever thread makes them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


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


@contextmanager
def counted_for(count: RequestCount) -> Iterator[None]:
    """Count the requests of this thread, and of tasks that it hands to pools, here."""
    token = _CURRENT.set(count)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def count_request() -> None:
    """Count a request for the current Application, if there is one."""
    count = _CURRENT.get()
    if count is not None:
        count.increment()
