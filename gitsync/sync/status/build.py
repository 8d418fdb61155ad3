"""Status: what the Application's status says of one look. Pure: the same found again gives an equal status."""

from __future__ import annotations

from typing import Any

from gitsync.errors import Refused, TransientError, one_line
from gitsync.objects.change import Action, Hold, Risk
from gitsync.objects.conditions import Condition, set_conditions
from gitsync.objects.health import Health
from gitsync.sync.analysis.metrics import CONDITION
from gitsync.sync.reconcile import Stage, Turn

_PROBLEMS = 10
_SUBJECT = 200


def status_of(turn: Turn) -> dict[str, Any]:
    """Return the status; equal to the one before when nothing changed."""
    before = turn.status_before
    now = turn.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        key: value
        for key, value in {
            "observedGeneration": turn.app.generation,
            "phase": turn.phase,
            "sync": turn.sync,
            "health": turn.overall_health.value,
            "requestedSync": turn.requested,
            "revision": _revision(turn),
            "resources": _counts(turn) or before.get("resources"),
            "pinned": _pinned(turn),
            "postSync": turn.watch.to_status() if turn.watch else {},
            "plan": _plan(turn),
            "operation": dict(turn.operation),
            "drift": _drift(turn, now),
            "problems": [{"object": str(ref), "message": text} for ref, text in sorted(turn.problems.items())][
                :_PROBLEMS
            ],
            "history": _history(turn),
            "conditions": set_conditions(_kept(turn), _conditions(turn), turn.app.generation, now),
            **turn.inventory.to_status(),
        }.items()
        if value not in (None, "", [], {})
    }


def _revision(turn: Turn) -> dict[str, str]:
    before = turn.status_before.get("revision") or {}
    revision = {
        "fetched": turn.commit.id if turn.commit else before.get("fetched", ""),
        "applied": turn.applied,
        "appliedFor": turn.applied_for,
        "good": turn.good,
        "message": turn.commit.subject if turn.commit else before.get("message", ""),
        "author": turn.commit.author if turn.commit else before.get("author", ""),
    }
    return {key: value for key, value in revision.items() if value}


def _pinned(turn: Turn) -> dict[str, str]:
    pin = turn.pin
    return {"commit": pin.commit, "instead": pin.instead, "reason": pin.reason} if pin else {}


def _counts(turn: Turn) -> dict[str, int]:
    if turn.plan is None or turn.observation is None:
        return {}
    changes = turn.plan.changes
    bad = (Health.DEGRADED, Health.MISSING)
    return {
        "total": len(turn.observation.desired),
        "synced": sum(1 for c in changes if not c.is_write and c.ref in turn.observation.desired),
        "outOfSync": sum(1 for c in changes if c.action in (Action.UPDATE, Action.REPLACE, Action.ADOPT)),
        "missing": sum(1 for c in changes if c.action is Action.CREATE),
        "toPrune": sum(1 for c in changes if c.action is Action.PRUNE),
        "unhealthy": sum(1 for status in turn.health.values() if status.health in bad),
    }


def _plan(turn: Turn) -> dict[str, Any]:
    if turn.plan is None or not turn.plan.writes:
        return {}
    return {
        "id": turn.plan.digest[:12],
        "class": turn.plan.risk.value,
        "steps": len(turn.plan.writes),
        "dangerous": sum(1 for change in turn.plan.writes if change.risk is Risk.DANGEROUS),
        "reasons": list(turn.verdict.reasons)[:_PROBLEMS] if turn.verdict else [],
    }


def _drift(turn: Turn, now: str) -> dict[str, Any]:
    before = turn.status_before.get("drift") or {}
    total = int(before.get("correctedTotal", 0)) + turn.corrected
    if turn.drift_objects:
        since = before.get("detectedAt") if before.get("objects") and not turn.corrected else now
        return {"detectedAt": since, "objects": turn.drift_objects, "correctedTotal": total}
    if not total and not before:
        return {}
    detected = now if turn.corrected else before.get("detectedAt", now)
    return {"detectedAt": detected, "objects": 0, "correctedTotal": total}


def _history(turn: Turn) -> list[dict[str, Any]]:
    before = list(turn.status_before.get("history") or [])
    if turn.record is None:
        return before
    entry = {
        "id": turn.record.id,
        "revision": turn.record.commit.id,
        "author": turn.record.commit.author,
        "message": one_line(turn.record.commit.subject, _SUBJECT),
        "startedAt": turn.record.started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "durationMs": turn.record.duration_ms,
        "class": turn.record.risk,
        "outcome": turn.record.outcome.value,
        "by": turn.record.initiator,
    }
    return [entry, *before][: turn.app.history_limit]


def _kept(turn: Turn) -> list[dict[str, Any]]:
    """Return the conditions that stand until they are set anew; an application without limits says nothing of them."""
    conditions = turn.status_before.get("conditions") or ()
    return [item for item in conditions if turn.app.sync.limits or item.get("type") != CONDITION]


def _conditions(turn: Turn) -> list[Condition]:
    return [
        *_source_condition(turn),
        *_render_condition(turn),
        *([turn.limits] if turn.limits is not None else []),
        _reconciling(turn),
        _stalled(turn),
        _ready(turn),
    ]


def _source_condition(turn: Turn) -> list[Condition]:
    error = turn.source_error or (turn.error if turn.stage is Stage.SOURCE else None)
    if error is not None:
        reason = "RevisionRefused" if isinstance(error, Refused) else "FetchFailed"
        return [Condition("SourceReady", "False", reason, str(error))]
    if turn.commit is None:
        return []
    return [Condition("SourceReady", "True", "Fetched", f"{turn.commit.id[:12]} {turn.commit.subject}".strip())]


def _render_condition(turn: Turn) -> list[Condition]:
    if turn.render_error is not None:
        return [Condition("Rendered", "False", "InvalidManifests", str(turn.render_error))]
    if turn.rendered is None:
        return []
    warnings = f"; {turn.warnings[0]}" if turn.warnings else ""
    return [Condition("Rendered", "True", "Built", f"{turn.rendered} objects{warnings}")]


def _reconciling(turn: Turn) -> Condition:
    is_going_on = turn.phase in ("Executing", "Deleting", "AwaitingApproval", "Observing", "Planning")
    if is_going_on or turn.reason == Hold.WINDOW.value or isinstance(turn.error, TransientError):
        return Condition("Reconciling", "True", turn.reason or turn.phase, _why(turn))
    return Condition("Reconciling", "False", "Done", "")


def _stalled(turn: Turn) -> Condition:
    if turn.phase in ("Failed", "Rejected") and not isinstance(turn.error, TransientError):
        return Condition("Stalled", "True", turn.reason or turn.stage.value, _why(turn))
    return Condition("Stalled", "False", "Progressing", "")


def _ready(turn: Turn) -> Condition:
    if turn.error is not None:
        status = "Unknown" if isinstance(turn.error, TransientError) else "False"
        return Condition("Ready", status, turn.reason or turn.stage.value, _why(turn))
    if turn.phase != "Synced":
        return Condition("Ready", "False", turn.reason or turn.phase, _why(turn))
    health = turn.overall_health
    if health in (Health.HEALTHY, Health.SUSPENDED):
        is_noted = turn.limits is not None and turn.limits.status != "True"
        note = f"; {turn.limits.message}" if is_noted and turn.limits is not None else ""
        return Condition("Ready", "True", "SyncedAndHealthy", f"{turn.rendered} objects{note}")
    return Condition("Ready", "False", health.value, turn.worst())


def _why(turn: Turn) -> str:
    if turn.error is not None:
        return str(turn.error)
    if turn.message:
        return turn.message
    if turn.problems:
        ref, text = sorted(turn.problems.items())[0]
        more = f" (and {len(turn.problems) - 1} more)" if len(turn.problems) > 1 else ""
        return text if str(ref) in text else f"{ref}: {text}{more}"
    return ""
