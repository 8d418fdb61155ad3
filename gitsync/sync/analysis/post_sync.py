"""Aftermath: what the health of a newly applied commit, and its numbers in Prometheus, mean."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from gitsync.objects.conditions import Condition
from gitsync.objects.health import Health
from gitsync.objects.keys import GROUP
from gitsync.objects.record import AuditRecord, Commit, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import MetricResult, MetricsProvider, Records
from gitsync.sync.analysis.metrics import CONDITION, Measurement, final_condition, measure, to_condition
from gitsync.sync.analysis.run import AnalysisRun
from gitsync.sync.reconcile import Reconcile, Rollback

TRIGGER = "post-sync"
_NO_METRICS = MetricResult(problem="the operator names no Prometheus server (gitsync run --prometheus)")
_MOST_BETWEEN, _LEAST_BETWEEN, _LOOKS = 15.0, 0.5, 20
"""Seconds between two readings: a part of the time that a commit is watched, within these bounds."""
_PENDING = 0.3


class PostSyncAnalysis:
    """Judge commits after they were applied, and do with those that are no good what their application says."""

    def __init__(self, records: Records, metrics: MetricsProvider | None) -> None:
        self._records = records
        self._metrics = metrics

    def evaluate(self, run: Reconcile) -> None:
        """
        Remember a commit that did well as good; for one that did not, do what the application says.

        A commit has the time of ``postSync.healthTimeout`` to become healthy, and all of it to keep within the limits
        of ``postSync.queries``. ``Rollback`` goes back to the last good one and stays there until Git has a newer
        commit, or a person asks; ``Hold`` leaves everything as it is until then; ``Ignore`` only says it. What happens
        once a commit was good says nothing of the commit, and a number that nobody can tell is no reason.
        """
        goal = run.target_commit.id if run.target_commit else ""
        if run.phase != "Synced" or run.applied != goal:
            return
        watch = run.analysis if run.analysis is not None and run.analysis.commit == goal else AnalysisRun(goal, run.now)
        run.analysis = None
        if run.last_good == goal:
            return
        if watch.failure:
            run.analysis, run.metric_condition = watch, Condition(CONDITION, "False", "OverLimit", watch.failure)
            return
        until = watch.since + timedelta(seconds=run.app.sync.health_timeout)
        findings = self._findings(run, watch)
        watch = replace(watch, exceeded_since={f.limit.name: f.over for f in findings if f.over is not None})
        verdict = _unhealthy(run, until) or "; ".join(finding.verdict for finding in findings if finding.verdict)
        if findings:
            run.metric_condition = to_condition(findings, until, _before(run, watch))
        if verdict:
            self._apply_policy(run, watch, verdict)
        elif _is_healthy(run) and not _is_open(findings, until, run.now):
            run.last_good = goal
            run.metric_condition = final_condition(findings, run.app.sync.health_timeout) if findings else None
        elif findings or run.app.sync.on_degraded != "Ignore":
            run.analysis = watch
            self._wake(run, findings, until)

    def _findings(self, run: Reconcile, watch: AnalysisRun) -> tuple[Measurement, ...]:
        watched = max((run.now - watch.since).total_seconds(), 0.0)
        max_age = min(_between(run), watched)  # what was read before the commit was applied says nothing of it
        return tuple(
            measure(
                limit,
                self._metrics.read(limit.query, max_age) if self._metrics is not None else _NO_METRICS,
                watch.exceeded_since.get(limit.name),
                run.now,
            )
            for limit in run.app.sync.limits
        )

    def _wake(self, run: Reconcile, findings: tuple[Measurement, ...], until: datetime) -> None:
        left = (until - run.now).total_seconds()
        if left > 0:
            run.requeue_in(left)
        if findings:
            run.requeue_in(_PENDING if any(finding.is_pending for finding in findings) else _between(run))

    def _apply_policy(self, run: Reconcile, watch: AnalysisRun, reason: str) -> None:
        """Do what the application says, with the reason in audit, history and status."""
        assert run.target_commit is not None
        policy = run.app.sync.on_degraded
        if policy == "Rollback" and not run.last_good:
            reason += ", and no commit is known to be good"
        pin = Rollback(run.last_good if policy == "Rollback" else "", watch.commit, reason)
        said = f"{reason}: left as it is" if policy == "Ignore" else pin.message
        outcome = Outcome.FAILED if policy == "Ignore" or pin.to_commit else Outcome.HELD
        self._records.audit([_audited(run, run.target_commit, outcome, said)])
        if policy == "Ignore":
            run.analysis = replace(watch, failure=reason)
        else:
            run.pin = pin
            run.requeue_in(0.0)
        if not pin.to_commit:  # the sync that goes back has a record of its own
            run.record = self._records.save(_recorded(run, run.target_commit, outcome, said))


def _unhealthy(run: Reconcile, until: datetime) -> str:
    """Return why the commit is no good by its health, empty while it may still become healthy."""
    if run.app.sync.on_degraded == "Ignore" or _is_healthy(run):
        return ""
    if run.overall_health is Health.DEGRADED:
        return run.least_healthy()
    return f"not healthy after {run.app.sync.health_timeout:.0f} s: {run.least_healthy()}" if run.now >= until else ""


def _is_healthy(run: Reconcile) -> bool:
    return run.overall_health in (Health.HEALTHY, Health.SUSPENDED)


def _is_open(findings: tuple[Measurement, ...], until: datetime, now: datetime) -> bool:
    """Whether the numbers may still speak against the commit; one that is just over its limit is waited for."""
    return any(finding.over is not None or finding.is_pending or now < until for finding in findings)


def _between(run: Reconcile) -> float:
    """Return how many seconds are between two readings."""
    return min(max(run.app.sync.health_timeout / _LOOKS, _LEAST_BETWEEN), _MOST_BETWEEN)


def _before(run: Reconcile, watch: AnalysisRun) -> dict[str, str]:
    """Return the condition as it stood before, empty when that was of another commit."""
    if watch.since == run.now:
        return {}
    conditions = run.status_before.get("conditions") or ()
    return next((item for item in conditions if item.get("type") == CONDITION), {})


def _audited(run: Reconcile, commit: Commit, outcome: Outcome, message: str) -> AuditRecord:
    return AuditRecord(
        application=run.app.key,
        action=TRIGGER,
        resource=ObjectRef(GROUP, "Application", run.app.namespace, run.app.name).path,
        outcome=outcome,
        timestamp=run.now,
        sync="",
        reasoning=run.app.sync.on_degraded,
        commit=commit.id,
        author=commit.author,
        message=message,
    )


def _recorded(run: Reconcile, commit: Commit, outcome: Outcome, message: str) -> SyncRecord:
    return SyncRecord(
        application=run.app.key,
        commit=commit,
        trigger=TRIGGER,
        started=run.now,
        duration_ms=0,
        outcome=outcome,
        risk=run.plan.risk.value if run.plan is not None else "",
        digest=run.plan.digest if run.plan is not None else "",
        message=message,
    )
