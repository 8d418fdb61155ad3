"""What status and history keep of an operation: its steps, its end, and how to continue it after a restart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from gitsync.apply.change import StepResult
from gitsync.apply.hooks import HookRun, HookRuns, is_hook
from gitsync.errors import counted, one_line
from gitsync.objects.application import Application
from gitsync.objects.change import DRIFT, Action, Change, Difference, Plan, Risk
from gitsync.objects.options import HookPhase
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.display import whole_object
from gitsync.plan.mask import difference_record, to_record
from gitsync.ports import Records
from gitsync.sync.cache import Operation


def operation_to_status(operation: Operation | None) -> dict[str, Any]:
    """
    Return what the status keeps of an operation, empty for one without hooks.

    It prevents that a hook runs twice or never. A failed hook is kept as a running one: its failure is detected again.
    """
    if operation is None or not any(is_hook(change) for change in operation.plan.changes):
        return {}
    return {
        "id": operation.id,
        "commit": operation.commit.id,
        "trigger": operation.trigger,
        "by": operation.initiator,
        "startedAt": operation.started.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "hooks": [
            {"id": ref.path, "phase": phase.value, "uid": run.uid, "done": _is_done(run)}
            for (ref, phase), run in operation.hooks.items()
            if run.uid
        ],
    }


def operation_from_status(status: Mapping[str, Any], plan: Plan, now: datetime, monotonic: float) -> Operation:
    """Return the operation that a status keeps."""
    started = datetime.fromisoformat(str(status["startedAt"]))
    return Operation(
        id=str(status["id"]),
        commit=Commit(str(status["commit"])),
        trigger=str(status["trigger"]),
        initiator=str(status["by"]),
        started=started,
        # the deadline continues by this process' clock; a start in the future, by another clock, counts as now
        began=monotonic - max((now - started).total_seconds(), 0.0),
        plan=plan,
        begun_with=plan,
        hooks=_runs(status.get("hooks") or ()),
    )


def _runs(entries: Any) -> HookRuns:
    runs: HookRuns = {}
    for entry in entries:
        ref = ObjectRef.from_path(str(entry["id"]))
        # a failed hook is not kept: its object shows the failure again
        done = StepResult(Change(ref, Action.HOOK), Outcome.SUCCEEDED) if entry.get("done") else None
        runs[ref, HookPhase(entry["phase"])] = HookRun(uid=str(entry["uid"]), result=done, is_counted=done is not None)
    return runs


def _is_done(run: HookRun) -> bool:
    return run.result is not None and run.result.outcome is Outcome.SUCCEEDED


_SHOWN = 5


def record_steps(results: Iterable[StepResult]) -> dict[ObjectRef, Step]:
    """Return the steps of a record, Secret values masked."""
    return {
        result.change.ref: Step(
            ref=result.change.ref.path,
            action=result.change.action.value,
            risk=result.change.risk.value,
            reason=result.change.reason,
            outcome=result.outcome,
            # a success has the reason as its message
            message="" if result.outcome is Outcome.SUCCEEDED else result.message,
            differences=(*to_record(result.change), *_content(result.change)),
        )
        for result in results
    }


def _content(change: Change) -> tuple[dict[str, Any], ...]:
    """Return the whole object as a record keeps it, for a step that creates or deletes it."""
    saved = whole_object(change)
    return (difference_record(saved),) if saved is not None else ()


def describe_drift(change: Change) -> str:
    """Return the differences of a step as text, Secret values masked: field, values, manager and time."""
    return _drift_text(change.action, to_record(change), change.reason)


def repaired_drift(record: SyncRecord) -> tuple[tuple[ObjectRef, str], ...]:
    """Return the objects that a sync restored, each with what others had changed, as ``describe_drift`` says it."""
    return tuple(
        (ObjectRef.from_path(step.ref), _drift_text(Action(step.action), step.differences, step.reason))
        for step in (record.steps if record.trigger == "drift" else ())
    )


def _drift_text(action: Action, differences: Iterable[Mapping[str, Any]], reason: str) -> str:
    if action is Action.CREATE:
        return "was deleted"
    if action is Action.PRUNE:
        return "is not declared any more"
    lines = [_described(difference) for difference in differences if Difference(difference["kind"]) in DRIFT]
    more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return ("; ".join(lines[:_SHOWN]) + more) or reason


def _described(difference: Mapping[str, Any]) -> str:
    """Return the text for a difference as ``difference_record`` keeps it, where what is absent is null."""
    path, desired, live = difference["path"], difference["desired"], difference["live"]
    declared = "" if desired is None else f"; Git declares {_as_json(desired)}"
    if live is None:
        return one_line(f"{path} is gone{declared}", 300)
    owner = next(iter(difference["owners"]), None)
    by = f"{owner['manager']} ({owner['operation']}) set " if owner else ""
    at = f" at {_utc(owner['time'])}" if owner and owner["time"] else ""  # writes through /scale have no time
    # one line: values and names come from the cluster, and are shown in tables and logs
    return one_line(f"{by}{path}{' to ' if by else ' is '}{_as_json(live)}{at}{declared}", 300)


def _utc(time: str) -> str:
    """Return a time of the API server as pages show times."""
    return f"{time.replace('T', ' ').removesuffix('Z')} UTC"


def _as_json(value: Any) -> str:
    """Return a value as users write it."""
    return orjson.dumps(value, default=str).decode()


@dataclass(frozen=True, slots=True)
class Ending:
    """How an operation ended; ``why`` is a prefix for the explanation of its record."""

    message: str
    duration_ms: int
    why: str = ""
    superseded: bool = False


def save_record(operation: Operation, app: Application, records: Records, ending: Ending) -> SyncRecord:
    """Save and return the record of an operation, once even if the answer was lost before; drop the oldest ones."""
    message = ending.message
    why = ending.why
    plan = operation.begun_with  # the plan of the last pass only has the remaining steps
    wanted = SyncRecord(
        application=app.key,
        commit=operation.commit,
        trigger=operation.trigger,
        started=operation.started,
        duration_ms=ending.duration_ms,
        outcome=Outcome.SUPERSEDED if ending.superseded else _outcome(operation.steps.values(), message),
        risk=plan.risk.value,
        digest=plan.digest,
        explanation=f"{why}. {plan.explanation}" if why else plan.explanation,
        message=message,
        steps=tuple(operation.steps.values()),
        initiator=operation.initiator,
        approver=operation.approver,
        sync=operation.id,
    )
    return records.save(wanted, keep=app.history_limit)


def unrecorded_sync(app: Application, links: Sequence[AuditRecord], commit: Commit) -> SyncRecord | None:
    """
    Return the record of a sync, from its links of the audit: its process ended, or lost its Lease, before it saved one.

    ``links`` are all of them, oldest first, and ``commit`` is the one that the Application follows. None where a write
    has no outcome yet.
    """
    # by resource, the last of each: a step is tried again within a sync
    intents = {link.resource: link for link in links if link.outcome is Outcome.INTENDED}
    outcomes = {link.resource: link for link in links if link.outcome is not Outcome.INTENDED}
    if any(path not in outcomes or outcomes[path].id < intent.id for path, intent in intents.items()):
        return None
    first = next(link for link in links if link.outcome is Outcome.INTENDED)
    steps = tuple(_audited_step(intent, outcomes[path]) for path, intent in intents.items())
    failed = next((step for step in steps if step.outcome is Outcome.FAILED), None)
    message = f"{ObjectRef.from_path(failed.ref)}: {failed.message}" if failed is not None else ""
    outcome = _outcome(steps, message)
    if outcome is Outcome.SUCCEEDED and len(steps) < first.plan_steps:
        outcome = Outcome.SUPERSEDED
        message = f"interrupted after {len(steps)} of {counted(first.plan_steps, 'step')}"
    return SyncRecord(
        application=app.key,
        # the audit has no message of a commit
        commit=commit if commit.id == first.commit else Commit(first.commit, first.author),
        trigger=str(first.details["trigger"]),
        started=first.timestamp,
        duration_ms=round((links[-1].timestamp - first.timestamp).total_seconds() * 1000),
        outcome=outcome,
        risk=max((step.risk for step in steps), key=lambda risk: Risk(risk).level),
        digest=first.digest,
        explanation="Recorded from the audit, since the process that wrote it ended before.",
        message=message,
        steps=steps,
        initiator=str(first.details["by"]),
        approver=first.approver,
        sync=first.sync,
    )


def _audited_step(intent: AuditRecord, outcome: AuditRecord) -> Step:
    return Step(
        ref=intent.resource,
        action=intent.action,
        risk=intent.risk_level,
        reason=intent.reasoning,
        outcome=outcome.outcome,
        message="" if outcome.outcome is Outcome.SUCCEEDED else outcome.message,
        differences=tuple(intent.details.get("differences", ())),
    )


def _outcome(steps: Iterable[Step], message: str) -> Outcome:
    outcomes = {step.outcome for step in steps}
    if Outcome.FAILED in outcomes:
        return Outcome.PARTIAL if Outcome.SUCCEEDED in outcomes else Outcome.FAILED
    return Outcome.FAILED if message else Outcome.SUCCEEDED
