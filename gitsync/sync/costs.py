"""Costs: what the reconciles of each Application cost since the start, in memory."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace

from gitsync.ports import BOUNDS, Cost, Distribution, Spent

QUEUE = "queue"
"""The stage in which an Application waits for a worker; it costs no CPU and counts for no Application."""


class Costs:
    """Add up what reconciles cost; see the port ``CostReader``. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._costs: dict[str, Cost] = {}
        self._stages: dict[str, Distribution] = {}

    def add(self, key: str, stages: Mapping[str, tuple[float, float]], *, is_partial: bool = False) -> None:
        """Add a reconcile, of changed objects only where ``is_partial``."""
        with self._lock:
            before = self._costs.get(key, Cost())
            spent = {name: before.stages.get(name, Spent()).plus(Spent(*more)) for name, more in stages.items()}
            full, partial = before.full + (not is_partial), before.partial + is_partial
            self._costs[key] = Cost(full, partial, {**before.stages, **spent})
            for name, (seconds, _) in stages.items():
                self._observe(name, seconds)

    def waited(self, seconds: float) -> None:
        """Add the time that an Application waited for a worker."""
        with self._lock:
            self._observe(QUEUE, seconds)

    def forget(self, key: str) -> None:
        """Drop the costs of a deleted Application."""
        with self._lock:
            self._costs.pop(key, None)

    def of(self, key: str) -> Cost:
        """Return what an Application cost."""
        with self._lock:
            return self._costs.get(key, Cost())

    def distributions(self) -> Mapping[str, Distribution]:
        """Return how long each stage took, over all Applications."""
        with self._lock:
            return dict(self._stages)

    def _observe(self, stage: str, seconds: float) -> None:
        before = self._stages.get(stage, Distribution())
        bucket = bisect_left(BOUNDS, seconds)
        counts = (*before.counts[:bucket], before.counts[bucket] + 1, *before.counts[bucket + 1 :])
        self._stages[stage] = replace(before, counts=counts, seconds=before.seconds + seconds)
