"""Keep an operation that has hooks in the status, so that it is resumed after a crash."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gitsync.apply.hooks import HookRun, HookRuns, is_hook
from gitsync.apply.types import StepResult
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.options import HookPhase
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
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
        began=monotonic - max((now - started).total_seconds(), 0.0),
        plan=plan,
        begun_with=plan,
        hooks=_runs(status.get("hooks") or ()),
    )


def _runs(entries: Any) -> HookRuns:
    runs: HookRuns = {}
    for entry in entries:
        ref = ObjectRef.from_path(str(entry["id"]))
        done = StepResult(Change(ref, Action.HOOK), Outcome.SUCCEEDED) if entry.get("done") else None
        runs[ref, HookPhase(entry["phase"])] = HookRun(uid=str(entry["uid"]), result=done, is_counted=done is not None)
    return runs


def _is_done(run: HookRun) -> bool:
    return run.result is not None and run.result.outcome is Outcome.SUCCEEDED
