"""The time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """
    The current time; waiting is done by queues and events, never by sleeping on a clock.

    Called by controllers, gate, records and clients whenever a decision depends on time.
    """

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...
