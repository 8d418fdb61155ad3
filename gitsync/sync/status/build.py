"""Build the Application status from the report of a reconcile. Pure: an equal report gives an equal status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gitsync.errors import (
    ClusterUnavailable,
    RecordUnavailable,
    Refused,
    TerminalError,
    TransientError,
    UnexpectedError,
    counted,
    one_line,
)
from gitsync.objects.application import Application, SourceGroup
from gitsync.objects.change import Action, Change, HoldReason, Risk
from gitsync.objects.conditions import (
    READY,
    RENDERED,
    SOURCE_READY,
    Condition,
    about,
    not_ready_message,
    set_conditions,
)
from gitsync.objects.health import Health
from gitsync.objects.inventory import Inventory
from gitsync.objects.phase import Phase
from gitsync.objects.record import AuditRecord, Commit, Outcome, joined_commits
from gitsync.sync.additions import HELD, UNDECLARED, held_condition, undeclared_condition
from gitsync.sync.post_sync import CONDITION
from gitsync.sync.running import RUNNING, running_condition, running_status
from gitsync.sync.status.report import FailureReason, Report

_PROBLEMS = 10  # the status is stored in etcd and read by each watch: long lists belong to the pages
_SUBJECT = 200
_REASON = 500
_RECONCILING = (Phase.EXECUTING, Phase.DELETING, Phase.AWAITING_APPROVAL, Phase.OBSERVING, Phase.PLANNING)


def build_status(report: Report) -> dict[str, Any]:
    """Return the status; equal to the one before when nothing changed."""
    previous = report.previous_status
    state = report.state
    outcome = report.outcome
    now = report.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        key: value
        for key, value in {
            "observedGeneration": report.app.generation,
            **phase_since(previous, outcome.phase, report.now),
            "sync": report.sync.value,
            "health": report.health.value,
            "healthSince": _since(previous, "health", report.health.value, now),
            "lastObserved": _last_observed(report),
            "requestedSync": state.requested,
            "pendingSync": _pending(report),
            "revision": _revision(report),
            "resources": _counts(report) or previous.get("resources"),
            "pinned": state.rollback.to_status() if state.rollback else {},
            "postSync": state.analysis.to_status() if state.analysis else {},
            "evaluations": [evaluation.to_status() for evaluation in state.evaluations],
            "plan": _plan(report),
            "operation": dict(state.operation),
            "audit": state.audit.to_json() if state.audit else {},
            "drift": _drift(report, now),
            "problems": [
                {"object": one_line(str(ref)), "message": one_line(text)}
                for ref, text in sorted(outcome.problems.items())
            ][:_PROBLEMS],
            "pods": running_status(report.observation.running, report.detected)
            if report.observation
            else previous.get("pods"),
            "contents": report.contents if report.contents is not None else previous.get("contents"),
            "history": _history(report),
            "conditions": set_conditions(_kept(report), _conditions(report), report.app.generation, now),
            **state.inventory.to_status(),
        }.items()
        # absent rather than empty, so that equal reports give equal statuses
        if value not in (None, "", [], {})
    }


def _pending(report: Report) -> dict[str, Any]:
    """Return the requested sync of chosen objects that has not ended, empty where there is none."""
    choice = report.inputs.choice
    if choice is None:
        return {}
    objects = sorted(str(ref) for ref in choice.refs)
    options = dict.fromkeys(choice.options, True)
    return {"id": report.app.requested_sync, "objects": objects, **options, "by": choice.by}


def _last_observed(report: Report) -> str:
    """Return when the Application was observed last, where it cannot be now; empty where it is."""
    # not a time of each reconcile: that would be a write of the status for each
    if report.is_conclusive:
        return ""
    # the first one that was written stays: a controller that started since has observed nothing
    known = str(report.previous_status.get("lastObserved", ""))
    return known or (report.last_observed.strftime("%Y-%m-%dT%H:%M:%SZ") if report.last_observed else "")


def failed_status(report: Report) -> dict[str, Any]:
    """Return the status with the failure of a reconcile, and all else as it was."""
    previous = report.previous_status
    now = report.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    changed = [_reconciling(report), _stalled(report), ready_condition(report)]
    conditions = set_conditions(list(previous.get("conditions") or ()), changed, report.app.generation, now)
    return {**previous, **phase_since(previous, report.outcome.phase, report.now), "conditions": conditions}


def executing_status(
    previous: Mapping[str, Any], inventory: Inventory, operation: Mapping[str, Any], now: datetime, fetched: str = ""
) -> dict[str, Any]:
    """
    Return the status that stores the inventory and the running operation before objects are written.

    ``fetched`` is the commit that declares them: another replica that sees them has to know what else it declares.
    """
    # both forms of the inventory are dropped first: a larger one is packed, and the other form would remain
    status = {**previous, **phase_since(previous, Phase.EXECUTING, now), "inventory": (), "packedInventory": ""}
    status |= {"operation": operation, **inventory.to_status()}
    if fetched:
        status["revision"] = {**(previous.get("revision") or {}), "fetched": fetched}
    return {key: value for key, value in status.items() if value}


def phase_since(previous_status: Mapping[str, Any], phase: Phase, now: datetime) -> dict[str, str]:
    """Return the status members for the phase and the time since when the Application is in it."""
    return {
        "phase": phase.value,
        "phaseSince": _since(previous_status, "phase", phase.value, now.strftime("%Y-%m-%dT%H:%M:%SZ")),
    }


def _since(previous_status: Mapping[str, Any], member: str, value: str, now: str) -> str:
    """Return the time since when a member of the status has its value."""
    is_same = previous_status.get(member) == value and previous_status.get(f"{member}Since")
    return str(previous_status[f"{member}Since"]) if is_same else now


def _revision(report: Report) -> dict[str, Any]:
    previous = report.previous_status.get("revision") or {}
    revision = {
        "fetched": report.commit.id if report.commit else previous.get("fetched", ""),
        "applied": report.state.applied,
        "appliedFor": report.state.applied_spec_hash,
        "followed": report.state.followed,
        "followedFor": report.state.followed_spec_hash,
        "good": report.state.last_good,
        "message": report.commit.subject if report.commit else previous.get("message", ""),
        "author": report.commit.author if report.commit else previous.get("author", ""),
        "time": _utc(report.commit.time) if report.commit else previous.get("time", ""),
        "sources": _joined(report.app, report.commit) if report.commit else previous.get("sources"),
        "remotes": dict(report.remotes) if report.remotes is not None else previous.get("remotes"),
    }
    return {key: value for key, value in revision.items() if value}


def _utc(time: datetime | None) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time else ""


def _joined(app: Application, commit: Commit) -> list[dict[str, str]]:
    """Return the commits that one joins, empty for one source, whose message is not read for that."""
    commits = joined_commits(commit) if isinstance(app.source, SourceGroup) else {}
    return [{"name": name, "commit": id} for name, id in commits.items()]


def _counts(report: Report) -> dict[str, int]:
    if report.plan is None or report.observation is None:
        return {}
    changes = report.plan.changes
    writes = report.plan.outstanding
    # what is repaired differs from Git although the plan of the commit does nothing to it
    as_declared = report.observation.desired.keys() - {change.ref for change in report.plan.repairs}
    bad = (Health.DEGRADED, Health.MISSING)
    return {
        "total": len(report.observation.desired),
        "synced": sum(1 for c in changes if _is_synced(c) and c.ref in as_declared),
        "outOfSync": sum(1 for c in writes if c.action in (Action.UPDATE, Action.REPLACE, Action.ADOPT)),
        "missing": sum(1 for c in writes if c.action is Action.CREATE),
        "toPrune": sum(1 for c in writes if c.action is Action.PRUNE),
        "unhealthy": sum(1 for status in report.observation.health.values() if status.health in bad),
    }


def _is_synced(change: Change) -> bool:
    return not change.is_write and not change.unobserved


def _plan(report: Report) -> dict[str, Any]:
    if report.plan is None or not report.plan.writes:
        return {}
    return {
        "id": report.plan.digest[:12],
        "class": report.plan.risk.value,
        "steps": len(report.plan.writes),
        "dangerous": sum(1 for change in report.plan.writes if change.risk is Risk.DANGEROUS),
        "reasons": [one_line(reason) for reason in report.verdict.reasons[:_PROBLEMS]] if report.verdict else [],
    }


def _drift(report: Report, now: str) -> dict[str, Any]:
    previous: dict[str, Any] = report.previous_status.get("drift") or {}
    # not compared, as until the Git server answers after a start: what drifts and since when stays as it was known
    if report.plan is None:
        return previous
    total = int(previous.get("correctedTotal", 0)) + report.healed
    if report.outcome.drift_objects:
        # a repair was made and drift was found again: that is another drift
        since = previous.get("detectedAt") if previous.get("objects") and not report.healed else now
        return {"detectedAt": since, "objects": report.outcome.drift_objects, "correctedTotal": total}
    if not total and not previous:
        return {}
    detected = now if report.healed else previous.get("detectedAt", now)
    return {"detectedAt": detected, "objects": 0, "correctedTotal": total}


def _history(report: Report) -> list[dict[str, Any]]:
    entries = list(report.previous_status.get("history") or [])
    if report.record is None:
        return entries
    entry = {
        "id": report.record.id,
        "revision": report.record.commit.id,
        "author": report.record.commit.author,
        "message": one_line(report.record.commit.subject, _SUBJECT),
        "startedAt": report.record.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "durationMs": report.record.duration_ms,
        "class": report.record.risk,
        "outcome": report.record.outcome.value,
        "by": report.record.initiator,
        "trigger": report.record.trigger,
        **({"reason": one_line(report.record.message, _REASON)} if report.record.message else {}),
        **({"sources": sources} if (sources := _joined(report.app, report.record.commit)) else {}),
    }
    return [entry, *entries][: report.app.history_limit]


def _kept(report: Report) -> list[dict[str, Any]]:
    """Return the conditions to keep until they are set; without metric limits the condition for them is dropped."""
    conditions = report.previous_status.get("conditions") or ()
    dropped = {UNDECLARED, RUNNING, HELD, *([] if report.app.sync.limits else [CONDITION])}
    # of a reconcile that ended before it had a plan nothing is known: what was found before stays
    kept = dropped if report.planned is not None else dropped - {UNDECLARED, RUNNING, HELD}
    return [item for item in conditions if item.get("type") not in kept or _is_again(report, item)]


def _is_again(report: Report, item: Mapping[str, Any]) -> bool:
    """Whether a condition holds still, so that the time since when it does is kept."""
    if report.planned is None:
        return False
    findings = {
        UNDECLARED: report.planned.additions,
        RUNNING: report.planned.observation.running,
        HELD: report.app.holds,
    }
    return bool(findings.get(str(item.get("type"))))


def _conditions(report: Report) -> list[Condition]:
    return [
        *_source_condition(report),
        *_render_condition(report),
        *([report.metric_condition] if report.metric_condition is not None else []),
        *_findings(report),
        _reconciling(report),
        _stalled(report),
        ready_condition(report),
    ]


def _source_condition(report: Report) -> list[Condition]:
    error = report.source_error or (report.error if report.stage is FailureReason.SOURCE else None)
    if isinstance(error, ClusterUnavailable | RecordUnavailable):
        return []  # another system failed: what is known of Git stays
    if error is not None:
        # a server that fails may recover by itself; what was refused needs a person
        reason = "RevisionRefused" if isinstance(error, Refused) else "FetchFailed"
        return [Condition(SOURCE_READY, "False", reason, str(error))]
    if report.commit is None:
        return []
    return [Condition(SOURCE_READY, "True", "Fetched", f"{report.commit.id[:12]} {report.commit.subject}".strip())]


def _render_condition(report: Report) -> list[Condition]:
    if report.render_error is not None:
        return [Condition(RENDERED, "False", "InvalidManifests", str(report.render_error))]
    if report.rendered is None:
        return []
    count, warnings = report.rendered
    more = f"; {warnings[0]}" if warnings else ""
    return [Condition(RENDERED, "True", "Built", f"{counted(count, 'object')}{more}")]


def _findings(report: Report) -> list[Condition]:
    if report.planned is None:
        return []
    conditions = (
        undeclared_condition(report.planned.additions),
        running_condition(report.planned.observation.running),
        held_condition(report.app.holds),
    )
    return [condition for condition in conditions if condition is not None]


def _reconciling(report: Report) -> Condition:
    is_running = report.outcome.phase in _RECONCILING
    if is_running or report.outcome.reason == HoldReason.WINDOW.value or isinstance(report.error, TransientError):
        return Condition("Reconciling", "True", report.outcome.reason or report.outcome.phase, _why(report))
    return Condition("Reconciling", "False", "Done", "")


def _stalled(report: Report) -> Condition:
    if report.outcome.phase in (Phase.FAILED, Phase.REJECTED) and not isinstance(report.error, TransientError):
        return Condition("Stalled", "True", report.outcome.reason or report.stage.value, _why(report))
    return Condition("Stalled", "False", "Progressing", "")


def ready_condition(report: Report) -> Condition:
    """Return the condition Ready."""
    if report.error is not None:
        is_unknown = isinstance(report.error, TransientError) and not isinstance(report.error, UnexpectedError)
        status = "Unknown" if is_unknown else "False"
        return Condition(READY, status, report.outcome.reason or report.stage.value, _why(report))
    if report.outcome.phase is not Phase.SYNCED:
        status = "Unknown" if report.outcome.phase is Phase.OBSERVING else "False"
        return Condition(READY, status, report.outcome.reason or report.outcome.phase, _why(report))
    if report.is_source_outdated:
        return Condition(READY, "Unknown", "FetchFailed", f"Git may have a newer commit: {report.source_error}")
    health = report.health
    if health in (Health.HEALTHY, Health.SUSPENDED):
        is_noted = report.metric_condition is not None and report.metric_condition.status != "True"
        note = f"; {report.metric_condition.message}" if is_noted and report.metric_condition is not None else ""
        count = report.rendered[0] if report.rendered is not None else 0
        return Condition(READY, "True", "SyncedAndHealthy", f"{counted(count, 'object')}{note}")
    return Condition(READY, "False", health.value, report.observation.least_healthy if report.observation else "")


def _why(report: Report) -> str:
    if report.error is not None:
        return str(report.error)
    if report.outcome.message:
        return report.outcome.message
    if report.outcome.problems:
        ref, text = next(iter(report.outcome.problems.items()))
        more = f" (and {len(report.outcome.problems) - 1} more)" if len(report.outcome.problems) > 1 else ""
        return about(one_line(str(ref)), f"{one_line(text)}{more}")
    return ""


_REFUSED_ACTION = "sync"
"""The action of the audit record of a refusal."""


def refusal_record(report: Report) -> AuditRecord | None:
    """Return the audit record of a refusal; None where nothing was refused, or where the audit has its message."""
    if not isinstance(report.error, TerminalError) and report.outcome.reason != "Refused":
        return None
    ready = ready_condition(report)
    message = ready.message if ready.status == "False" else ""
    # once for each message: a retry that is refused again must not add a link to the audit
    if not message or message == not_ready_message(report.previous_status):
        return None
    # without an error the gate has refused the plan
    is_refused = isinstance(report.error, Refused) or report.error is None
    outcome = Outcome.REFUSED if is_refused else Outcome.FAILED
    record = AuditRecord.of_application(report.app, _REFUSED_ACTION, outcome, report.now, report.outcome.reason)
    if report.plan is not None:
        record = record.of_plan(report.plan)
    if report.commit is not None:
        record = record.of_commit(report.commit)
    return replace(record, message=message)
