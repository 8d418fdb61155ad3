"""Drift counts: what others changed and how soon it was restored since the start, in memory."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from gitsync.objects.change import DRIFT, Change
from gitsync.ports import BOUNDS, Distribution, DriftTotals

_MANAGERS: Final = 50
"""Names of managers that metrics tell apart: clients choose them freely, and each is a time series."""
_OTHER: Final = "other"


class DriftCounts:
    """Count detected drift and heals. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._detected: Counter[tuple[str, str]] = Counter()
        self._heals = Distribution()
        self._failed = 0

    def detected(self, step: Change) -> None:
        """Count an object that others changed, by its kind and the manager that changed it."""
        manager = next(iter(managers_of(step)), "")
        with self._lock:
            known = {name for _, name in self._detected}
            # names that are counted already keep their series; only new ones are collected
            label = manager if manager in known or len(known) < _MANAGERS else _OTHER
            self._detected[step.ref.kind, label] += 1

    def healed(self, steps: Iterable[Change], now: datetime) -> None:
        """Add the time from edit to repair of restored objects, where the edit has a time."""
        with self._lock:
            for step in steps:
                edited = edited_at(step)
                if edited is not None:
                    # the clock of the API server may be ahead of ours
                    self._observe(max((now - edited).total_seconds(), 0.0))

    def failed(self, count: int) -> None:
        """Count repairs that failed."""
        with self._lock:
            self._failed += count

    def totals(self) -> DriftTotals:
        """Return the counts since the start."""
        with self._lock:
            return DriftTotals(dict(self._detected), self._heals, self._failed)

    def _observe(self, seconds: float) -> None:
        counts = list(self._heals.counts)
        counts[bisect_left(BOUNDS, seconds)] += 1
        self._heals = Distribution(tuple(counts), self._heals.seconds + seconds)


def managers_of(step: Change) -> tuple[str, ...]:
    """Return the managers that changed an object, each once."""
    owners = (owner for item in step.differences if item.kind in DRIFT for owner in item.owners)
    return tuple(dict.fromkeys(owner.manager for owner in owners if owner.manager))


def edited_at(step: Change) -> datetime | None:
    """Return when an object was changed last, as its managed fields tell; None where they do not."""
    # in UTC and of one format (RFC 3339), so that the text order is the order of time
    times = [owner.time for item in step.differences if item.kind in DRIFT for owner in item.owners if owner.time]
    return datetime.fromisoformat(max(times)) if times else None
