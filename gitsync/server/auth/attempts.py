"""Wrong tokens: each address that sends them, and each account they are for, has to wait longer and longer."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_FREE: Final = 5
"""Wrong tokens without a delay."""
_LONGEST: Final = 60.0
_FORGOTTEN: Final = 900.0
"""Seconds after the last wrong token after which its count starts at zero."""
_ADDRESSES: Final = 10_000


class Attempts:
    """Count wrong tokens by address or account; the delay in seconds is 1, 2, 4 and so on, at most a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Return the seconds until the next token of an address is checked, 0 for at once."""
        with self._lock:
            failures, last = self._failed.get(address, (0, 0.0))
            elapsed = self._monotonic() - last
            delay = min(2.0 ** min(failures - _FREE, 10), _LONGEST) if failures >= _FREE else 0.0
            return max(delay - elapsed, 0.0)

    def fail(self, address: str) -> None:
        """Count a wrong token; the addresses that failed longest ago are forgotten where there are too many."""
        now = self._monotonic()
        with self._lock:
            failures, last = self._failed.pop(address, (0, now))
            self._failed[address] = (failures + 1 if now - last < _FORGOTTEN else 1, now)
            while len(self._failed) > _ADDRESSES:
                self._failed.popitem(last=False)
