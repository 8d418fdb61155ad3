"""Aftermath: what the health of a newly applied commit, and its numbers in Prometheus, mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from gitsync.objects.conditions import Condition
from gitsync.objects.health import Health
from gitsync.objects.keys import GROUP
from gitsync.objects.record import AuditRecord, Commit, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Metrics, Reading, Records
from gitsync.sync.analysis.metrics import CONDITION, Finding, concluded, condition, find
from gitsync.sync.analysis.run import Watch
from gitsync.sync.reconcile import Pin, Turn

TRIGGER = "post-sync"
_NO_METRICS = Reading(problem="the operator names no Prometheus server (gitsync run --prometheus)")
_MOST_BETWEEN, _LEAST_BETWEEN, _LOOKS = 15.0, 0.5, 20
"""Seconds between two readings: a part of the time that a commit is watched, within these bounds."""
_PENDING = 0.3


class Aftermath:
    """Judge commits after they were applied, and do with those that are no good what their application says."""

    def __init__(self, records: Records, metrics: Metrics | None) -> None:
        self._records = records
        self._metrics = metrics

    def judge(self, turn: Turn) -> None:
        """
        Remember a commit that did well as good; for one that did not, do what the application says.

        A commit has the time of ``postSync.healthTimeout`` to become healthy, and all of it to keep within the limits
        of ``postSync.queries``. ``Rollback`` goes back to the last good one and stays there until Git has a newer
        commit, or a person asks; ``Hold`` leaves everything as it is until then; ``Ignore`` only says it. What happens
        once a commit was good says nothing of the commit, and a number that nobody can tell is no reason.
        """
        goal = turn.goal.id if turn.goal else ""
        if turn.phase != "Synced" or turn.applied != goal:
            return
        watch = turn.watch if turn.watch is not None and turn.watch.commit == goal else Watch(goal, turn.now)
        turn.watch = None
        if turn.good == goal:
            return
        if watch.verdict:
            turn.watch, turn.limits = watch, Condition(CONDITION, "False", "OverLimit", watch.verdict)
            return
        until = watch.since + timedelta(seconds=turn.app.sync.health_timeout)
        findings = self._findings(turn, watch)
        watch = replace(watch, over={f.limit.name: f.over for f in findings if f.over is not None})
        verdict = _unhealthy(turn, until) or "; ".join(finding.verdict for finding in findings if finding.verdict)
        if findings:
            turn.limits = condition(findings, until, _before(turn, watch))
        if verdict:
            self._act(turn, watch, verdict)
        elif _is_healthy(turn) and not _is_open(findings, until, turn.now):
            turn.good = goal
            turn.limits = concluded(findings, turn.app.sync.health_timeout) if findings else None
        elif findings or turn.app.sync.on_degraded != "Ignore":
            turn.watch = watch
            self._wake(turn, findings, until)

    def _findings(self, turn: Turn, watch: Watch) -> tuple[Finding, ...]:
        watched = max((turn.now - watch.since).total_seconds(), 0.0)
        max_age = min(_between(turn), watched)  # what was read before the commit was applied says nothing of it
        return tuple(
            find(
                limit,
                self._metrics.read(limit.query, max_age) if self._metrics is not None else _NO_METRICS,
                watch.over.get(limit.name),
                turn.now,
            )
            for limit in turn.app.sync.limits
        )

    def _wake(self, turn: Turn, findings: tuple[Finding, ...], until: datetime) -> None:
        left = (until - turn.now).total_seconds()
        if left > 0:
            turn.wake_in(left)
        if findings:
            turn.wake_in(_PENDING if any(finding.is_pending for finding in findings) else _between(turn))

    def _act(self, turn: Turn, watch: Watch, reason: str) -> None:
        """Do what the application says, with the reason in audit, history and status."""
        assert turn.goal is not None
        policy = turn.app.sync.on_degraded
        if policy == "Rollback" and not turn.good:
            reason += ", and no commit is known to be good"
        pin = Pin(turn.good if policy == "Rollback" else "", watch.commit, reason)
        said = f"{reason}: left as it is" if policy == "Ignore" else pin.message
        outcome = Outcome.FAILED if policy == "Ignore" or pin.commit else Outcome.HELD
        self._records.audit([_audited(turn, turn.goal, outcome, said)])
        if policy == "Ignore":
            turn.watch = replace(watch, verdict=reason)
        else:
            turn.pin = pin
            turn.wake_in(0.0)
        if not pin.commit:  # the sync that goes back has a record of its own
            turn.record = self._records.save(_recorded(turn, turn.goal, outcome, said))


def _unhealthy(turn: Turn, until: datetime) -> str:
    """Return why the commit is no good by its health, empty while it may still become healthy."""
    if turn.app.sync.on_degraded == "Ignore" or _is_healthy(turn):
        return ""
    if turn.overall_health is Health.DEGRADED:
        return turn.worst()
    return f"not healthy after {turn.app.sync.health_timeout:.0f} s: {turn.worst()}" if turn.now >= until else ""


def _is_healthy(turn: Turn) -> bool:
    return turn.overall_health in (Health.HEALTHY, Health.SUSPENDED)


def _is_open(findings: tuple[Finding, ...], until: datetime, now: datetime) -> bool:
    """Whether the numbers may still speak against the commit; one that is just over its limit is waited for."""
    return any(finding.over is not None or finding.is_pending or now < until for finding in findings)


def _between(turn: Turn) -> float:
    """Return how many seconds are between two readings."""
    return min(max(turn.app.sync.health_timeout / _LOOKS, _LEAST_BETWEEN), _MOST_BETWEEN)


def _before(turn: Turn, watch: Watch) -> dict[str, str]:
    """Return the condition as it stood before, empty when that was of another commit."""
    if watch.since == turn.now:
        return {}
    conditions = turn.status_before.get("conditions") or ()
    return next((item for item in conditions if item.get("type") == CONDITION), {})


def _audited(turn: Turn, commit: Commit, outcome: Outcome, message: str) -> AuditRecord:
    return AuditRecord(
        application=turn.app.key,
        action=TRIGGER,
        resource=ObjectRef(GROUP, "Application", turn.app.namespace, turn.app.name).path,
        outcome=outcome,
        timestamp=turn.now,
        sync="",
        reasoning=turn.app.sync.on_degraded,
        commit=commit.id,
        author=commit.author,
        message=message,
    )


def _recorded(turn: Turn, commit: Commit, outcome: Outcome, message: str) -> SyncRecord:
    return SyncRecord(
        application=turn.app.key,
        commit=commit,
        trigger=TRIGGER,
        started=turn.now,
        duration_ms=0,
        outcome=outcome,
        risk=turn.plan.risk.value if turn.plan is not None else "",
        digest=turn.plan.digest if turn.plan is not None else "",
        message=message,
    )
