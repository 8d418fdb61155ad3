"""
Restore what others changed to the state that was applied last, apart from the sync of commits.

A repair needs no approval of its class. It waits for no commit, and no commit waits for it: each object is repaired
alone, so that one that fails or has to wait holds back nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gitsync.apply.change import ApplyRequest, StepResult
from gitsync.apply.execute import Applier, is_recreation
from gitsync.apply.owner_writes import NotAnswered
from gitsync.errors import Rejected, TransientError
from gitsync.gate.decide import repair_hold
from gitsync.objects.application import Application, RetryBackoff
from gitsync.objects.change import Change
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import resource_version_of
from gitsync.objects.record import Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.explain import explain
from gitsync.plan.order import batches
from gitsync.plan.risk.table import plan_risk
from gitsync.ports import Ports
from gitsync.sync.cache import ExecutionCache, FailedRepair, Operation, ReconcileCache
from gitsync.sync.executor import CONFLICTS, conflict_delay, transient_delay
from gitsync.sync.observe import health_of
from gitsync.sync.operation import Ending, record_steps, save_record
from gitsync.sync.planner import Planned
from gitsync.sync.policies import Policies

Widen = Callable[[Mapping[ObjectRef, InventoryEntry]], None]
"""Add entries to the inventory of the status, and return once they are stored."""


@dataclass(frozen=True, slots=True)
class DueRepairs:
    """The repairs that run now, why others do not, and the seconds until one of these may."""

    steps: tuple[Change, ...] = ()
    message: str = ""
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a run of repairs did, with its record; an unanswered write is neither a success nor a failure."""

    results: tuple[StepResult, ...]
    record: SyncRecord | None

    @property
    def healed(self) -> int:
        """The number of restored objects."""
        return sum(result.outcome is Outcome.SUCCEEDED for result in self.results)


class Repairer:
    """Run the repairs of a plan that are due."""

    def __init__(self, ports: Ports, applier: Applier, policies: Policies) -> None:
        self._records = ports.records
        self._live = ports.live
        self._clock = ports.clock
        self._applier = applier
        self._policies = policies

    def due(self, planned: Planned, cache: ExecutionCache, changing: Collection[ObjectRef] | None) -> DueRepairs:
        """
        Return the repairs that may run now.

        ``changing`` are the objects that a sync writes now, None where no sync runs. A sync brings every object to
        what Git declares, so that it includes the repairs also where self-heal is off.
        """
        repairs = planned.plan.repairs
        if not repairs:
            return DueRepairs()
        inputs = planned.inputs
        # a sync of chosen objects restores those alone
        is_sync = (changing is not None or inputs.is_requested) and inputs.choice is None
        hold = repair_hold(planned.app, self._policies.of(planned.app), inputs.now, is_sync=is_sync)
        rollback = inputs.state.rollback
        # a rollback that holds leaves the cluster unchanged until a user acts; one to a commit may be repaired
        if rollback is not None and not rollback.to_commit and not is_sync:
            hold = rollback.message
        if hold:
            repairs = self._requested(planned)
            if not repairs:
                return DueRepairs(message=hold)
            # the others still wait
            hold = hold if len(repairs) < len(planned.plan.repairs) else ""
        # what the sync writes is not written twice, and an object on its way out cannot be created yet
        steps = [step for step in repairs if step.ref not in (changing or ()) and not is_recreation(step)]
        violations = {step.ref: self._violation(planned, step) for step in steps}
        allowed = [step for step in steps if not violations[step.ref]]
        # what a user requests or a commit causes does not wait for the backoff of earlier repairs
        requested = inputs.chosen_repairs
        delays = {step.ref: 0.0 if is_sync or step.ref in requested else self._delay(step, cache) for step in allowed}
        waiting = [step for step in allowed if delays[step.ref] > 0]
        return DueRepairs(
            tuple(step for step in allowed if delays[step.ref] <= 0),
            self._explanation(planned, cache, waiting)
            or next(filter(None, violations.values()), "")
            or _awaited_deletion(repairs)
            or hold,
            min((delays[step.ref] for step in waiting), default=None),
        )

    def run(self, planned: Planned, cache: ReconcileCache, steps: Sequence[Change], widen: Widen) -> Repaired:
        """Restore the objects of some steps; one that fails is retried with the delays of the retry policy."""
        operation = self._operation(planned, steps)
        request = self._request(planned, cache, operation, widen)
        results: list[StepResult] = []
        for batch in batches(steps):  # in order, but without waiting for health: each object is repaired alone
            results += self._applier.write(request, batch)
        # a running write is neither: its answer reconciles the Application again
        answered = [result for result in results if not isinstance(result.error, NotAnswered)]
        if len(answered) < len(results):
            cache.execution.slow_repairs[operation.id] = operation
        return self._record(planned.app, cache, operation, answered)

    def take_answered(self, app: Application, cache: ReconcileCache) -> Repaired:
        """Return and record what repairs did whose writes were answered after their reconcile."""
        answered = cache.execution.answered_repairs
        cache.execution.answered_repairs = []
        operations = {operation.id: operation for operation, _ in answered}
        runs = [
            # what was answered in time has a record of its own
            self._record(
                app,
                cache,
                # what was answered in time is recorded under the id of the operation itself
                replace(operation, steps={}, id=f"{operation.id}-{uuid.uuid4().hex[:4]}"),
                [result for other, result in answered if other is operation],
            )
            for operation in operations.values()
        ]
        record = next((run.record for run in reversed(runs) if run.record is not None), None)
        return Repaired(tuple(result for run in runs for result in run.results), record)

    def _record(
        self, app: Application, cache: ReconcileCache, operation: Operation, answered: list[StepResult]
    ) -> Repaired:
        """Note and record the results of a run."""
        is_repeated = self._note(app, cache, answered)
        # an object that only changed since it was planned is planned again: nothing has failed yet
        answered = [result for result in answered if not _is_planned_again(result, cache.execution)]
        operation.steps.update(record_steps(answered))
        failed = [result for result in answered if result.outcome is Outcome.FAILED]
        record = None
        # a repair that fails each time in the same way would fill the history with equal records
        if answered and not (is_repeated and len(failed) == len(answered)):
            message = f"{failed[0].change.ref}: {failed[0].message}" if failed else ""
            took = round((self._clock.monotonic() - operation.began) * 1000)
            record = save_record(operation, app, self._records, Ending(message, took))
        return Repaired(tuple(answered), record)

    def _requested(self, planned: Planned) -> tuple[Change, ...]:
        """Return the repairs that a user requested, which wait neither for self-heal nor for a window."""
        inputs = planned.inputs
        if repair_hold(planned.app, self._policies.of(planned.app), inputs.now, is_sync=True):
            return ()
        return tuple(step for step in planned.plan.repairs if step.ref in inputs.chosen_repairs)

    def _violation(self, planned: Planned, step: Change) -> str:
        """Return why the policy does not allow one object any more, empty where it does."""
        # each object alone: a violation by one must not hold back the repair of another
        part = replace(planned.plan, changes=(step,), repairs=())
        return next(iter(self._policies.violations(planned.app, part)), "")

    def _delay(self, step: Change, cache: ExecutionCache) -> float:
        """Return the seconds until a repair is tried again: after a failure, and where a controller sets it back."""
        now = self._clock.monotonic()
        failed = cache.failed_repairs.get(step.ref)
        retry = failed.retry_at - now if failed is not None else 0.0
        return max(retry, cache.self_heals.remaining(step, now))

    def _explanation(self, planned: Planned, cache: ExecutionCache, waiting: Sequence[Change]) -> str:
        """Return which field a controller sets back each time, empty where none does."""
        now = self._clock.monotonic()
        contested = [step for step in waiting if cache.self_heals.remaining(step, now) > 0]
        if not contested:
            return ""
        first = min(contested, key=lambda step: cache.self_heals.remaining(step, now))
        more = f"; and {len(contested) - 1} more" if len(contested) > 1 else ""
        return cache.self_heals.explain(first, planned.observation.live.values()) + more

    def _operation(self, planned: Planned, steps: Sequence[Change]) -> Operation:
        """Return the operation of a run: it ends with it, since nothing of it waits."""
        inputs = planned.inputs
        requester = inputs.repair.by if inputs.repair.refs.issuperset(step.ref for step in steps) else ""
        choice = inputs.choice
        if choice is not None and choice.refs.issuperset(step.ref for step in steps):
            requester = choice.by or "manual"
        elif choice is None and inputs.is_requested:
            requester = inputs.requested_by or "manual"
        plan = replace(
            planned.plan,
            changes=tuple(steps),
            repairs=(),
            risk=plan_risk(steps, planned.app.risk.max_deletes),
            explanation=explain((), steps),
        )
        return Operation(
            id=uuid.uuid4().hex[:16],
            commit=planned.target.commit,
            # readers emit "healed" events for the records of the trigger "drift"
            trigger="manual" if requester else "drift",
            initiator=requester or "automated",
            started=inputs.now,
            began=self._clock.monotonic(),
            plan=plan,
            begun_with=plan,
        )

    def _request(self, planned: Planned, cache: ReconcileCache, operation: Operation, widen: Widen) -> ApplyRequest:
        app = planned.app

        def remember(result: StepResult) -> None:
            """Keep what was applied; the answer may come in a later reconcile."""
            if result.outcome is Outcome.SUCCEEDED:
                # nothing to remember of its state: the inventory has the digest of what a repair restores
                cache.execution.self_heals.record([result.change], self._clock.monotonic())
                cache.execution.failed_repairs.pop(result.change.ref, None)

        return ApplyRequest(
            app,
            operation.plan,
            operation.commit,
            operation.id,
            planned.observation.versions,
            widen,
            lambda ref, manifest: health_of(ref, manifest, self._live, app),
            trigger=operation.trigger,
            initiator=operation.initiator,
            on_result=remember,
        )

    def _note(self, app: Application, cache: ReconcileCache, results: Sequence[StepResult]) -> bool:
        """Count the failures of a run; return whether all of them are those of the attempt before."""
        failures = cache.execution.failed_repairs
        is_repeated = True
        for result in results:
            if result.outcome is not Outcome.FAILED:
                continue
            previous = failures.get(result.change.ref)
            is_repeated = is_repeated and previous is not None and previous.result.message == result.message
            count = previous.failures + 1 if previous is not None else 1
            is_rejected = isinstance(result.error, Rejected) and result.error.refusal.reason == "Invalid"
            if is_rejected and result.change.live is not None:
                cache.plans.refused[result.change.ref] = resource_version_of(result.change.live)
            # what was rejected as invalid is tried again at once, with the fields of users taken over
            delay = 0.0 if is_rejected and count == 1 else _backoff(app.sync.retry.backoff, count)
            if isinstance(result.error, TransientError):
                delay = transient_delay(delay, [result.error])
            is_outdated = result.is_outdated and count <= CONFLICTS
            if is_outdated:
                delay = conflict_delay(count)
            retry_at = self._clock.monotonic() + delay
            failures[result.change.ref] = FailedRepair(result, count, retry_at, is_outdated)
        return is_repeated


def _awaited_deletion(repairs: Sequence[Change]) -> str:
    """Return which object has to be gone before its repair can create it again, empty where none has."""
    leaving = next((step.ref for step in repairs if is_recreation(step)), None)
    return f"waits for {leaving} to be gone, to create it again" if leaving is not None else ""


def _is_planned_again(result: StepResult, cache: ExecutionCache) -> bool:
    failed = cache.failed_repairs.get(result.change.ref)
    return failed is not None and failed.result is result and failed.is_outdated


def _backoff(backoff: RetryBackoff, failures: int) -> float:
    # min: the factor to a large power overflows a float; the result is limited to the longest delay anyway
    return float(min(backoff.initial * backoff.factor ** min(failures - 1, 64), backoff.max))
