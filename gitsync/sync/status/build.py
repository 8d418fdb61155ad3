"""Status: what the Application's status says of one look. Pure: the same found again gives an equal status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gitsync.errors import Refused, TransientError, one_line
from gitsync.objects.change import Action, HoldReason, Risk
from gitsync.objects.conditions import Condition, set_conditions
from gitsync.objects.health import Health
from gitsync.sync.analysis.metrics import CONDITION
from gitsync.sync.reconcile import FailureReason, Reconcile

_PROBLEMS = 10
_SUBJECT = 200


def build_status(run: Reconcile) -> dict[str, Any]:
    """Return the status; equal to the one before when nothing changed."""
    before = run.status_before
    now = run.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        key: value
        for key, value in {
            "observedGeneration": run.app.generation,
            **phase_since(before, run.phase, run.now),
            "sync": run.sync,
            "health": run.overall_health.value,
            "healthSince": _since(before, "health", run.overall_health.value, now),
            "requestedSync": run.requested,
            "revision": _revision(run),
            "resources": _counts(run) or before.get("resources"),
            "pinned": _pinned(run),
            "postSync": run.analysis.to_status() if run.analysis else {},
            "plan": _plan(run),
            "operation": dict(run.operation),
            "drift": _drift(run, now),
            "problems": [{"object": str(ref), "message": text} for ref, text in sorted(run.problems.items())][
                :_PROBLEMS
            ],
            "history": _history(run),
            "conditions": set_conditions(_kept(run), _conditions(run), run.app.generation, now),
            **run.inventory.to_status(),
        }.items()
        if value not in (None, "", [], {})
    }


def phase_since(before: Mapping[str, Any], phase: str, now: datetime) -> dict[str, str]:
    """Return the members of a status that say the phase, and since when the application is in it."""
    return {"phase": phase, "phaseSince": _since(before, "phase", phase, now.strftime("%Y-%m-%dT%H:%M:%SZ"))}


def _since(before: Mapping[str, Any], member: str, value: str, now: str) -> str:
    """Return since when a member of the status has its value."""
    is_same = before.get(member) == value and before.get(f"{member}Since")
    return str(before[f"{member}Since"]) if is_same else now


def _revision(run: Reconcile) -> dict[str, str]:
    before = run.status_before.get("revision") or {}
    revision = {
        "fetched": run.commit.id if run.commit else before.get("fetched", ""),
        "applied": run.applied,
        "appliedFor": run.applied_spec_hash,
        "good": run.last_good,
        "message": run.commit.subject if run.commit else before.get("message", ""),
        "author": run.commit.author if run.commit else before.get("author", ""),
    }
    return {key: value for key, value in revision.items() if value}


def _pinned(run: Reconcile) -> dict[str, str]:
    pin = run.pin
    return {"commit": pin.to_commit, "instead": pin.bad_commit, "reason": pin.reason} if pin else {}


def _counts(run: Reconcile) -> dict[str, int]:
    if run.plan is None or run.observation is None:
        return {}
    changes = run.plan.changes
    bad = (Health.DEGRADED, Health.MISSING)
    return {
        "total": len(run.observation.desired),
        "synced": sum(1 for c in changes if not c.is_write and c.ref in run.observation.desired),
        "outOfSync": sum(1 for c in changes if c.action in (Action.UPDATE, Action.REPLACE, Action.ADOPT)),
        "missing": sum(1 for c in changes if c.action is Action.CREATE),
        "toPrune": sum(1 for c in changes if c.action is Action.PRUNE),
        "unhealthy": sum(1 for status in run.health.values() if status.health in bad),
    }


def _plan(run: Reconcile) -> dict[str, Any]:
    if run.plan is None or not run.plan.writes:
        return {}
    return {
        "id": run.plan.digest[:12],
        "class": run.plan.risk.value,
        "steps": len(run.plan.writes),
        "dangerous": sum(1 for change in run.plan.writes if change.risk is Risk.DANGEROUS),
        "reasons": list(run.verdict.reasons)[:_PROBLEMS] if run.verdict else [],
    }


def _drift(run: Reconcile, now: str) -> dict[str, Any]:
    before = run.status_before.get("drift") or {}
    total = int(before.get("correctedTotal", 0)) + run.healed
    if run.drift_objects:
        since = before.get("detectedAt") if before.get("objects") and not run.healed else now
        return {"detectedAt": since, "objects": run.drift_objects, "correctedTotal": total}
    if not total and not before:
        return {}
    detected = now if run.healed else before.get("detectedAt", now)
    return {"detectedAt": detected, "objects": 0, "correctedTotal": total}


def _history(run: Reconcile) -> list[dict[str, Any]]:
    before = list(run.status_before.get("history") or [])
    if run.record is None:
        return before
    entry = {
        "id": run.record.id,
        "revision": run.record.commit.id,
        "author": run.record.commit.author,
        "message": one_line(run.record.commit.subject, _SUBJECT),
        "startedAt": run.record.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "durationMs": run.record.duration_ms,
        "class": run.record.risk,
        "outcome": run.record.outcome.value,
        "by": run.record.initiator,
    }
    return [entry, *before][: run.app.history_limit]


def _kept(run: Reconcile) -> list[dict[str, Any]]:
    """Return the conditions that stand until they are set anew; an application without limits says nothing of them."""
    conditions = run.status_before.get("conditions") or ()
    return [item for item in conditions if run.app.sync.limits or item.get("type") != CONDITION]


def _conditions(run: Reconcile) -> list[Condition]:
    return [
        *_source_condition(run),
        *_render_condition(run),
        *([run.metric_condition] if run.metric_condition is not None else []),
        _reconciling(run),
        _stalled(run),
        _ready(run),
    ]


def _source_condition(run: Reconcile) -> list[Condition]:
    error = run.source_error or (run.error if run.stage is FailureReason.SOURCE else None)
    if error is not None:
        reason = "RevisionRefused" if isinstance(error, Refused) else "FetchFailed"
        return [Condition("SourceReady", "False", reason, str(error))]
    if run.commit is None:
        return []
    return [Condition("SourceReady", "True", "Fetched", f"{run.commit.id[:12]} {run.commit.subject}".strip())]


def _render_condition(run: Reconcile) -> list[Condition]:
    if run.render_error is not None:
        return [Condition("Rendered", "False", "InvalidManifests", str(run.render_error))]
    if run.rendered_count is None:
        return []
    warnings = f"; {run.warnings[0]}" if run.warnings else ""
    return [Condition("Rendered", "True", "Built", f"{run.rendered_count} objects{warnings}")]


def _reconciling(run: Reconcile) -> Condition:
    is_going_on = run.phase in ("Executing", "Deleting", "AwaitingApproval", "Observing", "Planning")
    if is_going_on or run.reason == HoldReason.WINDOW.value or isinstance(run.error, TransientError):
        return Condition("Reconciling", "True", run.reason or run.phase, _why(run))
    return Condition("Reconciling", "False", "Done", "")


def _stalled(run: Reconcile) -> Condition:
    if run.phase in ("Failed", "Rejected") and not isinstance(run.error, TransientError):
        return Condition("Stalled", "True", run.reason or run.stage.value, _why(run))
    return Condition("Stalled", "False", "Progressing", "")


def _ready(run: Reconcile) -> Condition:
    if run.error is not None:
        status = "Unknown" if isinstance(run.error, TransientError) else "False"
        return Condition("Ready", status, run.reason or run.stage.value, _why(run))
    if run.phase != "Synced":
        return Condition("Ready", "False", run.reason or run.phase, _why(run))
    health = run.overall_health
    if health in (Health.HEALTHY, Health.SUSPENDED):
        is_noted = run.metric_condition is not None and run.metric_condition.status != "True"
        note = f"; {run.metric_condition.message}" if is_noted and run.metric_condition is not None else ""
        return Condition("Ready", "True", "SyncedAndHealthy", f"{run.rendered_count} objects{note}")
    return Condition("Ready", "False", health.value, run.least_healthy())


def _why(run: Reconcile) -> str:
    if run.error is not None:
        return str(run.error)
    if run.message:
        return run.message
    if run.problems:
        ref, text = sorted(run.problems.items())[0]
        more = f" (and {len(run.problems) - 1} more)" if len(run.problems) > 1 else ""
        return text if str(ref) in text else f"{ref}: {text}{more}"
    return ""
