"""The clock of the machine."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Implement ``gitsync.ports.Clock`` by the machine's time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        return time.monotonic()
