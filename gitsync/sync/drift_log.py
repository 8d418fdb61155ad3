"""The drift of Applications over time: counted when it is detected, and written to the audit when it ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from gitsync.objects.change import Change
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy, OpenDrift, OpenFinding, ended_finding_link, ended_link
from gitsync.plan.running import RunningFinding
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

    def observe(self, planned: Planned, cache: ExecutionCache, status: Mapping[str, Any]) -> None:
        """
        Note what others have changed since the last plan, and what is as declared again.

        ``status`` is the one before: after a restart it has since when there is drift.
        """
        steps = {step.ref: step for step in planned.drifted}
        now = self._clock.now()
        first_seen = None
        if cache.detections is None:
            first_seen = _first_seen(status)
            cache.detections = _detections(status)
        # only what is new since the last reconcile: drift that lasts is counted once, also over a restart
        if first_seen is None:
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
            cache.drifted[ref] = OpenDrift(step, known.detected if known is not None else first_seen or now)
        self._observe_pods(planned, cache)

    def repaired(self, planned: Planned, cache: ExecutionCache, steps: Collection[Change], failures: int) -> None:
        """Note what was restored; the same edit is another drift then."""
        self._counts.healed(steps, self._clock.now())
        self._counts.failed(failures)
        by = EndedBy.SYNC if planned.inputs.is_requested else EndedBy.SELF_HEAL
        self._end(planned.app.key, cache, [step.ref for step in steps], by)

    def replacing(self, cache: ExecutionCache, refs: Collection[ObjectRef], by: EndedBy) -> None:
        """Note what replaces the Pods of some workloads, or some Pods: it will have ended what they run."""
        for key, item in cache.findings.items():
            if item.workload in refs or item.finding.pod in refs:
                cache.findings[key] = replace(item, by=by)

    def _observe_pods(self, planned: Planned, cache: ExecutionCache) -> None:
        """Note which Pods run otherwise than declared, and which no longer do."""
        now = self._clock.now()
        # a Pod may be listed after the first reconcile of a process
        restored = cache.detections or {}
        running = {
            finding.key: replace(cache.findings[finding.key], finding=finding)
            if finding.key in cache.findings
            else OpenFinding(ref, finding, restored.get(_row_key(ref, finding), now))
            for ref, findings in planned.observation.running.items()
            for finding in findings
        }
        absent = {key: item for key, item in cache.findings.items() if key not in running}
        unobserved = {key: item for key, item in absent.items() if item.workload in planned.observation.unobserved}
        ended = [item for key, item in absent.items() if key not in unobserved]
        if ended:
            # before they are forgotten, as for fields
            self._records.audit(ended_finding_link(planned.app.key, item, now) for item in ended)
        cache.findings = running | unobserved

    def _end(self, application: str, cache: ExecutionCache, refs: Iterable[ObjectRef], by: EndedBy) -> None:
        now: datetime = self._clock.now()
        ended = [cache.drifted[ref] for ref in refs if ref in cache.drifted]
        if not ended:
            return
        # before they are forgotten: without its link the drift stays open, and the next reconcile ends it
        self._records.audit(ended_link(application, drift, now, by) for drift in ended)
        for drift in ended:
            del cache.drifted[drift.step.ref]


def _first_seen(status: Mapping[str, Any]) -> datetime | None:
    """Return since when objects differ as the status tells, None where none does."""
    drift = status.get("drift") or {}
    return datetime.fromisoformat(str(drift["detectedAt"])) if drift.get("objects") else None


def _detections(status: Mapping[str, Any]) -> dict[tuple[str, ...], datetime]:
    """Return when the findings of Pods were detected, by what identifies them in the status."""
    return {
        (str(item["object"]), str(item["pod"]), str(item["kind"])): datetime.fromisoformat(str(item["detected"]))
        for item in status.get("pods") or ()
        # a version before this one wrote none
        if item.get("detected")
    }


def _row_key(workload: ObjectRef, finding: RunningFinding) -> tuple[str, ...]:
    return (str(workload), finding.pod.name, finding.kind.value)
