"""The drift of Applications over time: counted when it is detected, and written to the audit when it ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from gitsync.objects.change import Change
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, OpenDrift, ended_link
from gitsync.ports import Clock, Records
from gitsync.state.costs import DriftCounts
from gitsync.sync.cache import ExecutionCache
from gitsync.sync.planner import Planned


class DriftLog:
    """Follow the drift of each Application from its detection to its end."""

    def __init__(self, records: Records, counts: DriftCounts, clock: Clock) -> None:
        self._records = records
        self._counts = counts
        self._clock = clock

    def observe(self, planned: Planned, cache: ExecutionCache) -> None:
        """Note what others have changed since the last plan, and what is as declared again."""
        steps = {step.ref: step for step in planned.drifted}
        now = self._clock.now()
        # only what is new since the last reconcile: drift that lasts is counted once
        for ref in steps.keys() - cache.drifted.keys():
            self._counts.detected(steps[ref])
        unobserved = planned.observation.unobserved
        ended = [ref for ref in cache.drifted if ref not in steps and ref not in unobserved]
        by_sync = [ref for ref in ended if ref in cache.synced]
        self._end(planned.app.key, cache, by_sync, EndedBy.SYNC)
        self._end(planned.app.key, cache, [ref for ref in ended if ref not in cache.synced], EndedBy.OTHERS)
        cache.synced = frozenset()
        for ref, step in steps.items():
            known = cache.drifted.get(ref)
            cache.drifted[ref] = OpenDrift(step, known.detected if known is not None else now)

    def repaired(self, planned: Planned, cache: ExecutionCache, steps: Collection[Change], failures: int) -> None:
        """Note what was restored; the same edit is another drift then."""
        self._counts.healed(steps, self._clock.now())
        self._counts.failed(failures)
        by = EndedBy.SYNC if planned.inputs.is_requested else EndedBy.SELF_HEAL
        self._end(planned.app.key, cache, [step.ref for step in steps], by)

    def _end(self, application: str, cache: ExecutionCache, refs: Iterable[ObjectRef], by: EndedBy) -> None:
        now: datetime = self._clock.now()
        ended = [cache.drifted[ref] for ref in refs if ref in cache.drifted]
        if not ended:
            return
        # before they are forgotten: without its link the drift stays open, and the next reconcile ends it
        self._records.audit(ended_link(application, drift, now, by) for drift in ended)
        for drift in ended:
            del cache.drifted[drift.step.ref]
