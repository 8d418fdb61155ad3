"""Wait for a condition in tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

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


def never(condition: Callable[[], Any], seconds: float) -> None:
    """Check for some seconds that the condition does not hold; fail at once when it does."""
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        assert not condition(), "it happened"
        time.sleep(0.02)
