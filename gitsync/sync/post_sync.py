"""Post-sync analysis: decide from health and metrics whether a new commit is good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gitsync.objects.application import MetricQuery
from gitsync.objects.conditions import Condition
from gitsync.objects.health import Health
from gitsync.objects.parsing import duration
from gitsync.objects.record import AuditRecord, Outcome, SyncRecord
from gitsync.ports import MetricResult, MetricsProvider, Records
from gitsync.sync.input import AnalysisRun, Rollback, SyncState
from gitsync.sync.planner import Planned

CONDITION = "WithinLimits"
WATCHED = "Watched"
"""Its reason once the limits were kept for the whole time."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    The result of one metric query.

    ``over`` is the time since which the limit is exceeded; ``verdict`` is the message once that has lasted too long.
    ``problem`` is why the value is unknown. A pending query changes nothing.
    """

    limit: MetricQuery
    over: datetime | None = None
    verdict: str = ""
    problem: str = ""
    is_pending: bool = False


def measure(limit: MetricQuery, reading: MetricResult | None, over: datetime | None, now: datetime) -> Measurement:
    """
    Return the measurement of a limit that the previous reading exceeded since ``over``.

    Only consecutive readings above the limit count: an unknown value resets the time. Of several series the highest
    decides.
    """
    if reading is None:
        # neither resets nor extends the time: nothing was measured
        return Measurement(limit, over, is_pending=True)
    if reading.problem:
        return Measurement(limit, problem=f"{limit.name}: {reading.problem}")
    worst = max(reading.samples, key=lambda sample: sample.value)
    if worst.value <= limit.max:
        return Measurement(limit)
    since = over or now
    verdict = ""
    # a limit without ``for`` fails at its first reading: zero seconds have passed
    if (now - since).total_seconds() >= limit.for_seconds:
        labels = f" {worst.labels}" if worst.labels else ""
        lasting = f" for {duration(limit.for_seconds)}" if limit.for_seconds else ""
        verdict = f"{limit.name} {worst.value:.4g}{labels} is over {limit.max:g}{lasting}"
    return Measurement(limit, since, verdict)


def to_condition(findings: tuple[Measurement, ...], until: datetime, previous: Mapping[str, str]) -> Condition:
    """Return the condition that summarizes the findings; while a query is pending, the ``previous`` one."""
    verdicts = [finding.verdict for finding in findings if finding.verdict]
    if verdicts:
        return Condition(CONDITION, "False", "OverLimit", "; ".join(verdicts))
    if any(finding.is_pending for finding in findings):
        return Condition(
            CONDITION,
            previous.get("status", "Unknown"),
            previous.get("reason", "Watching"),
            previous.get("message", "Prometheus is queried"),
        )
    over = [_exceeded_message(finding.limit, finding.over) for finding in findings if finding.over]
    if over:
        return Condition(CONDITION, "False", "OverLimit", "; ".join(over))
    problems = [finding.problem for finding in findings if finding.problem]
    if problems:
        return Condition(CONDITION, "Unknown", "NoVerdict", "; ".join(problems))
    return Condition(CONDITION, "True", "Watching", f"{_count(findings)} until {until:%H:%M:%S} UTC")


def final_condition(findings: tuple[Measurement, ...], timeout: float) -> Condition:
    """Return the condition of a commit whose analysis has ended without a failure: it is good."""
    problems = [finding.problem for finding in findings if finding.problem]
    if problems:
        return Condition(CONDITION, "Unknown", "NoVerdict", "; ".join([*problems, "good by its health alone"]))
    return Condition(CONDITION, "True", WATCHED, f"{_count(findings)} after {duration(timeout)}")


def _exceeded_message(limit: MetricQuery, since: datetime | None) -> str:
    allowed = duration(limit.for_seconds)
    return f"{limit.name} has exceeded {limit.max:g} since {since:%H:%M:%S} UTC; it fails after {allowed}"


def _count(findings: tuple[Measurement, ...]) -> str:
    return f"{findings[0].limit.name} is within its limit" if len(findings) == 1 else f"{len(findings)} within limits"


TRIGGER = "post-sync"
_NO_METRICS = MetricResult(problem="the operator names no Prometheus server (gitsync run --prometheus)")
_LONGEST_INTERVAL = 15.0
_SHORTEST_INTERVAL = 0.5
_READINGS = 20
"""The interval between two readings in seconds: a fraction of the health timeout, within these bounds."""
_PENDING_INTERVAL = 0.3


@dataclass(frozen=True, slots=True)
class PostSyncResult:
    """What an analysis found: the state to keep, the condition of the metrics, and a history record."""

    state: SyncState
    condition: Condition | None = None
    record: SyncRecord | None = None
    requeue_after: float | None = None


class PostSyncAnalysis:
    """Evaluate a commit after it is applied; on failure roll back, hold or ignore as ``postSync.onDegraded`` says."""

    def __init__(self, records: Records, metrics: MetricsProvider | None) -> None:
        self._records = records
        self._metrics = metrics

    def evaluate(self, planned: Planned, previous: Mapping[str, str]) -> PostSyncResult:
        """
        Mark a healthy commit as good; apply the ``onDegraded`` policy to an unhealthy one.

        A commit has ``postSync.healthTimeout`` to become healthy, and must keep within the limits of
        ``postSync.queries`` for all of it. ``Rollback`` applies the last good commit until Git has a newer one or a
        user requests a sync; ``Hold`` leaves the cluster unchanged until then; ``Ignore`` only reports. A good commit
        stays good, and an unknown metric does not fail. ``previous`` is the condition of the metrics in
        the status.
        """
        inputs = planned.inputs
        commit = planned.target.commit.id
        # dropped by default: a state that keeps an analysis continues it
        state = replace(inputs.state, analysis=None)
        # a good commit stays good: what fails later may have causes outside the commit
        if state.last_good == commit:
            return PostSyncResult(state)
        # an analysis of another commit in the status says nothing about this one
        running = inputs.state.analysis
        run = running if running is not None and running.commit == commit else AnalysisRun(commit, inputs.now)
        if run.failure:
            return PostSyncResult(replace(state, analysis=run), Condition(CONDITION, "False", "OverLimit", run.failure))
        until = run.since + timedelta(seconds=planned.app.sync.health_timeout)
        findings = self._measure(planned, run)
        is_degraded = planned.observation.overall_health is Health.DEGRADED
        run = replace(
            run,
            exceeded_since={f.limit.name: f.over for f in findings if f.over is not None},
            degraded_since=(run.degraded_since or inputs.now) if is_degraded else None,
        )
        failure = _unhealthy(planned, run, until) or "; ".join(f.verdict for f in findings if f.verdict)
        # at the first reading a condition in the status is that of another commit
        condition = to_condition(findings, until, {} if run.since == inputs.now else previous) if findings else None
        if failure:
            return self._apply_policy(planned, run, failure, condition)
        if _is_healthy(planned) and not _is_open(findings, until, inputs.now):
            final = final_condition(findings, planned.app.sync.health_timeout) if findings else None
            return PostSyncResult(replace(state, last_good=commit), final)
        if not findings and planned.app.sync.on_degraded == "Ignore":
            return PostSyncResult(state)
        return PostSyncResult(
            replace(state, analysis=run), condition, requeue_after=_next_reading(planned, run, findings, until)
        )

    def _measure(self, planned: Planned, run: AnalysisRun) -> tuple[Measurement, ...]:
        now = planned.inputs.now
        analysed = max((now - run.since).total_seconds(), 0.0)
        max_age = min(_interval(planned), analysed)  # an older reading is from before the commit was applied
        return tuple(
            measure(
                limit,
                self._metrics.read(limit.query, max_age) if self._metrics is not None else _NO_METRICS,
                run.exceeded_since.get(limit.name),
                now,
            )
            for limit in planned.app.sync.limits
        )

    def _apply_policy(
        self, planned: Planned, run: AnalysisRun, reason: str, condition: Condition | None
    ) -> PostSyncResult:
        """Apply ``onDegraded``, with the reason in audit, history and status."""
        policy = planned.app.sync.on_degraded
        state = planned.inputs.state
        # an unhealthy commit without a predecessor can only be held
        if policy == "Rollback" and not state.last_good:
            reason += ", and no commit is known to be good"
        rollback = Rollback(state.last_good if policy == "Rollback" else "", run.commit, reason)
        message = f"{reason}: left as it is" if policy == "Ignore" else rollback.message
        outcome = Outcome.FAILED if policy == "Ignore" or rollback.to_commit else Outcome.HELD
        # the audit first: history and status must not report a rollback that it lacks
        self._records.audit([_audit_record(planned, outcome, message)])
        self._records.mark_failed(planned.app.key, run.commit, message)
        # a rollback to an older commit has a history record of its own
        record = None
        if not rollback.to_commit:
            record = self._records.save(_history_record(planned, outcome, message), keep=planned.app.history_limit)
        if policy == "Ignore":
            return PostSyncResult(replace(state, analysis=replace(run, failure=reason)), condition, record)
        return PostSyncResult(replace(state, analysis=None, rollback=rollback), condition, record, requeue_after=0.0)


def _unhealthy(planned: Planned, run: AnalysisRun, until: datetime) -> str:
    """Return why the commit failed by its health, empty while it may still become healthy."""
    sync = planned.app.sync
    observed = planned.observation
    if sync.on_degraded == "Ignore" or _is_healthy(planned):
        return ""
    if run.degraded_since is not None and planned.inputs.now >= run.degraded_since + _degraded_for(planned):
        return observed.least_healthy
    is_late = planned.inputs.now >= until
    return f"not healthy after {sync.health_timeout:.0f} s: {observed.least_healthy}" if is_late else ""


def _degraded_for(planned: Planned) -> timedelta:
    return timedelta(seconds=planned.app.sync.post_sync.degraded_for)


def _is_healthy(planned: Planned) -> bool:
    return planned.observation.overall_health in (Health.HEALTHY, Health.SUSPENDED)


def _is_open(findings: tuple[Measurement, ...], until: datetime, now: datetime) -> bool:
    """Whether the metrics may still fail the commit; one that exceeds its limit for a short time is awaited."""
    return any(finding.over is not None or finding.is_pending or now < until for finding in findings)


def _interval(planned: Planned) -> float:
    """Return the metric polling interval in seconds."""
    return min(max(planned.app.sync.health_timeout / _READINGS, _SHORTEST_INTERVAL), _LONGEST_INTERVAL)


def _next_reading(
    planned: Planned, run: AnalysisRun, findings: tuple[Measurement, ...], until: datetime
) -> float | None:
    """Return the seconds until the analysis has to continue."""
    deadlines = [until] if run.degraded_since is None else [until, run.degraded_since + _degraded_for(planned)]
    # a deadline in the past would requeue at once and for ever
    delays = [seconds for deadline in deadlines if (seconds := (deadline - planned.inputs.now).total_seconds()) > 0]
    if findings:
        is_pending = any(finding.is_pending for finding in findings)
        delays.append(_PENDING_INTERVAL if is_pending else _interval(planned))
    return min(delays, default=None)


def _audit_record(planned: Planned, outcome: Outcome, message: str) -> AuditRecord:
    app = planned.app
    record = AuditRecord.of_application(app, TRIGGER, outcome, planned.inputs.now, app.sync.on_degraded)
    return replace(record.of_commit(planned.target.commit), message=message)


def _history_record(planned: Planned, outcome: Outcome, message: str) -> SyncRecord:
    return SyncRecord(
        application=planned.app.key,
        commit=planned.target.commit,
        trigger=TRIGGER,
        started=planned.inputs.now,
        duration_ms=0,
        outcome=outcome,
        risk=planned.plan.risk.value,
        digest=planned.plan.digest,
        message=message,
    )
