"""What is counted since the start, in memory: the costs of the reconciles of each Application, and its drift."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from gitsync.objects.change import DRIFT, Change
from gitsync.ports import Cost, Distribution, DriftTotals, EndedReconcile, Exemplar, ReconcileSink, Spent
from gitsync.runtime.work_costs import RequestCount

QUEUE = "queue"
"""The stage in which an Application waits for a worker; it costs no CPU and counts for no Application."""


class Costs:
    """Add up what reconciles cost, and pass each on to a sink. Every method may be called from any thread."""

    def __init__(self, sink: ReconcileSink | None = None) -> None:
        self._sink = sink
        self.requests = RequestCount()
        """The API requests for all Applications."""
        self._requests: dict[str, RequestCount] = {}
        self._lock = threading.Lock()
        self._costs: dict[str, Cost] = {}
        self._stages: dict[str, Distribution] = {}

    def add(self, done: EndedReconcile) -> None:
        """Add a reconcile, and pass it on."""
        stages: dict[str, Spent] = {}
        for stage, began, ended, cpu in done.intervals:
            # the same stage may run several times in a reconcile
            stages[stage] = stages.get(stage, Spent()).plus(Spent(ended - began, cpu))
        # without the lock: the sink is not ours, and other workers wait for the lock
        trace = self._sink.add(done) if self._sink is not None else ""
        with self._lock:
            self._add(done, stages, trace)

    def _add(self, done: EndedReconcile, stages: Mapping[str, Spent], trace: str) -> None:
        cost = self._costs.get(done.application, Cost())
        spent = {name: cost.stages.get(name, Spent()).plus(more) for name, more in stages.items()}
        full = cost.full + (not done.is_partial)
        partial = cost.partial + done.is_partial
        self._costs[done.application] = Cost(full, partial, stages={**cost.stages, **spent})
        ended = done.began.timestamp() + (done.intervals[-1].ended if done.intervals else 0.0)
        for name, more in stages.items():
            self._observe(name, more.seconds, Exemplar(trace, more.seconds, ended) if trace else None)

    def waited(self, seconds: float) -> None:
        """Add the time that an Application waited for a worker."""
        with self._lock:
            self._observe(QUEUE, seconds)

    def forget(self, key: str) -> None:
        """Drop the costs of a deleted Application."""
        with self._lock:
            self._costs.pop(key, None)
            self._requests.pop(key, None)

    def requests_of(self, key: str) -> RequestCount:
        """Return what counts the API requests for an Application."""
        with self._lock:
            # setdefault under the lock: two threads would count into two objects, and one would be lost
            return self._requests.setdefault(key, RequestCount(self.requests))

    def of(self, key: str) -> Cost:
        """Return what an Application cost."""
        with self._lock:
            requests = self._requests.get(key)
            return replace(self._costs.get(key, Cost()), requests=requests.value if requests else 0)

    def api_requests(self) -> int:
        """Return how many requests to the API server were made for all Applications."""
        return self.requests.value

    def distributions(self) -> Mapping[str, Distribution]:
        """Return how long each stage took, over all Applications."""
        with self._lock:
            return dict(self._stages)

    def _observe(self, stage: str, seconds: float, exemplar: Exemplar | None = None) -> None:
        self._stages[stage] = self._stages.get(stage, Distribution()).plus(seconds, exemplar)


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
                    self._heals = self._heals.plus(max((now - edited).total_seconds(), 0.0))

    def failed(self, count: int) -> None:
        """Count repairs that failed."""
        with self._lock:
            self._failed += count

    def totals(self) -> DriftTotals:
        """Return the counts since the start."""
        with self._lock:
            return DriftTotals(dict(self._detected), self._heals, self._failed)


def managers_of(step: Change) -> tuple[str, ...]:
    """Return the managers that changed an object, each once."""
    owners = (owner for item in step.differences if item.kind in DRIFT for owner in item.owners)
    return tuple(dict.fromkeys(owner.manager for owner in owners if owner.manager))


def edited_at(step: Change) -> datetime | None:
    """Return when an object was changed last, as its managed fields tell; None where they do not."""
    # in UTC and of one format (RFC 3339), so that the text order is the order of time
    times = [owner.time for item in step.differences if item.kind in DRIFT for owner in item.owners if owner.time]
    return datetime.fromisoformat(max(times)) if times else None
