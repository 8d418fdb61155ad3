"""The outcome of a reconcile: phase, reason and message. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gitsync.apply.change import StepResult
from gitsync.apply.execute import is_terminating
from gitsync.apply.hooks import is_hook
from gitsync.objects.change import Change, Decision, HoldReason, Plan, Verdict
from gitsync.objects.conditions import GROUP_UNAVAILABLE
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import ExecutionCache
from gitsync.sync.planner import Planned

_REVIEW_POLL = 5.0
"""Seconds until a held plan is reconciled: another process may store a review, and windows open over time."""
_DISCOVERY_POLL = 10.0
"""Seconds until unobserved objects are reconciled: of a kind that was never discovered no watch tells the recovery."""
_HELD = {
    HoldReason.REJECTION: Phase.REJECTED,
    HoldReason.APPROVAL: Phase.AWAITING_APPROVAL,
    HoldReason.WINDOW: Phase.PENDING,
    HoldReason.EVALUATION: Phase.PENDING,
    HoldReason.EVALUATION_FAILED: Phase.FAILED,
}


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """
    What the status says of a reconcile.

    ``problems`` are messages per object; ``drift_objects`` counts the objects that differ although Git did not change;
    ``is_applied`` says that the plan's revision is applied completely.
    """

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    problems: Mapping[ObjectRef, str] = field(default_factory=dict)
    drift_objects: int = 0
    is_applied: bool = False
    requeue_after: float | None = None


def outcome_of(planned: Planned, verdict: Verdict | None, execution: ExecutionCache, message: str) -> PhaseOutcome:
    """Return the outcome of a reconcile; ``message`` is why the plan did not run, or why it failed."""
    writes = planned.plan.writes
    operation = execution.operation
    is_refused = verdict is not None and verdict.decision is Decision.REFUSED
    # while it is deleted, everything differs from Git on purpose
    drifted = () if planned.app.is_deleted else planned.drifted
    if not writes and operation is None and not is_refused:
        if drifted:
            return _drifted(planned, execution, message)
        return _unobserved(planned.plan) or _synced(planned, execution, message)
    # an object without a step is as declared, and its old failure is over
    current = {change.ref for change in writes}
    problems = _messages({ref: result for ref, result in execution.failed.items() if ref in current})
    problems |= _repair_problems(planned, execution)
    drift = len(drifted)

    def outcome(phase: Phase, reason: str, message: str, requeue_after: float | None = None) -> PhaseOutcome:
        shown = {**problems, **planned.plan.unobserved}
        return PhaseOutcome(phase, reason, message, shown, drift, requeue_after=requeue_after)

    # a plan that is held or refused is reported as such, although an operation waits
    if operation is not None and (verdict is None or verdict.decision is Decision.ALLOWED):
        return outcome(Phase.EXECUTING, "Waiting", f"waits for {operation.waiting}")
    if verdict is not None and verdict.decision is Decision.HELD:
        hold = verdict.holds[0]
        return outcome(_HELD[hold], hold.value, "; ".join(verdict.reasons), _REVIEW_POLL)
    if verdict is not None and is_refused:
        return outcome(Phase.FAILED, "Refused", "; ".join(verdict.reasons))
    if problems:
        return outcome(Phase.FAILED, "ApplyFailed", message)
    # without the key a failure of the last commit would be shown for this one
    if execution.retry.message and execution.retry.input == planned.retry_key:
        return outcome(Phase.FAILED, "SyncFailed", execution.retry.message)
    if all(is_terminating(change) for change in writes):
        return outcome(Phase.EXECUTING, "Deleting", f"waits for {writes[0].ref} to be gone")
    if planned.is_applied and drifted:
        return outcome(Phase.DRIFTED, "Drifted", message or difference_of(drifted))
    waiting = "1 step waits" if len(writes) == 1 else f"{len(writes)} steps wait"
    return outcome(Phase.PENDING, "OutOfSync", message or f"{waiting} for a sync")


def _drifted(planned: Planned, execution: ExecutionCache, message: str) -> PhaseOutcome:
    """Return the outcome where the commit is applied, but others changed objects that are not restored yet."""
    problems = _repair_problems(planned, execution)
    phase = Phase.FAILED if problems else Phase.DRIFTED
    reason = "RepairFailed" if problems else "Drifted"
    # what differs comes first: why it stays does not tell how much does
    text = "; ".join(filter(None, (difference_of(planned.drifted), message or next(iter(problems.values()), ""))))
    shown = {**problems, **planned.plan.unobserved}
    is_applied = not planned.plan.unobserved
    return PhaseOutcome(phase, reason, text, shown, len(planned.drifted), is_applied=is_applied)


def _repair_problems(planned: Planned, execution: ExecutionCache) -> dict[ObjectRef, str]:
    """Return why objects could not be restored, of those that still have to be."""
    failed = {step.ref: execution.failed_repairs.get(step.ref) for step in planned.plan.repairs}
    return _messages(
        {ref: failure.result for ref, failure in failed.items() if failure is not None and not failure.is_outdated}
    )


def difference_of(drifted: Sequence[Change]) -> str:
    """Return how many objects differ from what Git declares, with the first; empty where none does."""
    if not drifted:
        return ""
    count = len(drifted)
    differ = f"{count} objects differ" if count > 1 else "1 object differs"
    more = f" and {count - 1} more" if count > 1 else ""
    return f"{differ} from Git: {drifted[0].ref}{more}"


def _unobserved(plan: Plan) -> PhaseOutcome | None:
    """Return the outcome where all that can be observed is as declared, None where everything was observed."""
    hidden = plan.unobserved
    if not hidden:
        return None
    return PhaseOutcome(Phase.OBSERVING, GROUP_UNAVAILABLE, problems=hidden, requeue_after=_DISCOVERY_POLL)


def _synced(planned: Planned, execution: ExecutionCache, message: str) -> PhaseOutcome:
    """Return the outcome where everything is applied: only a hook that ran for this input can have failed."""
    failed = {ref: result for ref, result in execution.failed.items() if is_hook(result.change)}
    if failed and execution.retry.input == planned.retry_key:
        return PhaseOutcome(Phase.FAILED, "HookFailed", message, _messages(failed), is_applied=True)
    return PhaseOutcome(Phase.SYNCED, message=message, is_applied=True)


def _messages(results: Mapping[ObjectRef, StepResult]) -> dict[ObjectRef, str]:
    """Return the messages by object; what was not tried comes last, since it failed because of another."""
    ordered = sorted(results.items(), key=lambda item: (item[1].is_blocked, item[0]))
    return {ref: result.message for ref, result in ordered}
