"""Wait for a state instead of a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def until(
    condition: Callable[[], Any], timeout: float = 10.0, describe: Callable[[], Any] = lambda: "did not happen"
) -> Any:
    """Wait until the condition holds and return its value; fail with a description otherwise."""
    give_up = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {timeout} s: {describe()}")
        time.sleep(0.02)
    return value
