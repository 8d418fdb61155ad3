"""Wait for a condition in tests."""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from gitsync.errors import Conflict

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds that a wait lasts at least: more than any pause of a loaded machine, and free where all is well."""


def until(
    condition: Callable[[], Any], timeout: float = PATIENCE, describe: Callable[[], Any] = lambda: "did not happen"
) -> Any:
    """
    Wait until the condition holds and return its value; fail with a description otherwise.

    A ``timeout`` below ``PATIENCE`` has no effect: a test never proves speed by the limit of a wait, but by an interval
    that is too long to be what helped.
    """
    limit = max(timeout, PATIENCE)
    give_up = time.monotonic() + limit
    while not (value := condition()):
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {limit:.0f} s: {describe()}")
        time.sleep(0.02)
    return value


def is_readable(connection: socket.socket) -> bool:
    """Return whether something can be read without waiting."""
    poll = select.poll()  # select.select raises from descriptor 1,024 on, which a worker of the suite reaches
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def never(condition: Callable[[], Any], seconds: float) -> None:
    """Check for some seconds that the condition does not hold; fail at once when it does."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        assert not condition(), "it happened"
        time.sleep(0.02)


def despite_conflicts(write: Callable[[], T]) -> T:
    """Call what reads and writes an object, again where another client has written it in between; return the result."""
    results: list[T] = []

    def is_written() -> bool:
        with suppress(Conflict):
            results.append(write())
        return bool(results)

    until(is_written, describe=lambda: "each write was in conflict with another client")
    return results[0]


def until_quiet(measure: Callable[[], Any], observations: int = 50) -> Any:
    """
    Wait until a measure has had one value for many observations in a row, and return it.

    Observations are counted instead of seconds: a loaded machine, which delays what is measured, delays them too.
    """
    values: deque[Any] = deque(maxlen=observations)

    def is_quiet() -> bool:
        values.append(measure())
        return len(values) == observations and all(value == values[0] for value in values)

    until(is_quiet, describe=lambda: f"it still changes: {values[-1]}")
    return values[-1]
