"""Reconcile the cluster with a target: observe → plan → decide → apply → observe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import RecordUnavailable
from gitsync.objects.change import Change, HoldReason
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.phase import Phase
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift_history import EndedBy
from gitsync.ports import Clock
from gitsync.sync.cache import ReconcileCache, RetryState
from gitsync.sync.decision import SyncDecision, SyncGate
from gitsync.sync.drift_log import DriftLog
from gitsync.sync.evaluate import SyncEvaluator
from gitsync.sync.evaluations import ObjectEvaluator, gated_objects, held_back, is_approved
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.input import RepairRequest, Target
from gitsync.sync.operation import operation_to_status
from gitsync.sync.planner import Planned
from gitsync.sync.repair import Repaired, Repairer
from gitsync.sync.replacements import Replacer
from gitsync.sync.status.build import executing_status
from gitsync.sync.status.outcome import difference_of, outcome_of
from gitsync.sync.status.report import FailureReason, Report
from gitsync.sync.status.writer import StatusWriter


@dataclass(frozen=True, slots=True)
class Planning:
    """How the plan of a target is made, and how it is decided whether that runs now."""

    evaluator: SyncEvaluator
    gate: SyncGate


@dataclass(frozen=True, slots=True)
class ClusterWriters:
    """
    What writes to the cluster: syncs, repairs of drift, replacements, and evaluations before a sync.

    ``writes`` are those without an answer.
    """

    writes: WritesByOwner
    executor: SyncExecutor
    repairer: Repairer
    replacer: Replacer
    object_evaluator: ObjectEvaluator


class Reconciler:
    """Bring the cluster to a target as far as policy, reviews and time allow; the results go into the report."""

    def __init__(
        self,
        planning: Planning,
        writers: ClusterWriters,
        statuses: StatusWriter,
        drift: DriftLog,
        clock: Clock,
    ) -> None:
        self._evaluator = planning.evaluator
        self._gate = planning.gate
        self._writes = writers.writes
        self._executor = writers.executor
        self._repairer = writers.repairer
        self._replacer = writers.replacer
        self._object_evaluator = writers.object_evaluator
        self._drift = drift
        self._clock = clock
        self._statuses = statuses

    def reconcile(self, report: Report, cache: ReconcileCache, target: Target) -> None:
        """Observe, plan, and run the steps that the gate allows."""
        planned = self.prepare(report, cache, target)
        # before the drift is compared: what a slow write has restored would have been ended by others
        self._note_repaired(report, cache, planned, self._repairer.take_answered(report.app, cache))
        self._report_drift(report, cache, planned)
        decision = self._decide(report, cache, planned)
        planned, decision, waiting = self._repair(report, cache, planned, decision)
        planned = self.report_decision(report, planned, decision)
        message = decision.message or waiting
        if decision.trigger:
            is_part = _is_part(cache, decision)
            message = self.execute(report, cache, planned, decision)
            # without ``locate``: the objects are those that the first plan has validated
            whole = replace(target, locate=None)
            # the plan of a part does not have the steps that are left, and would take the commit for applied
            if is_part and not self._writes.of(report.app.key).running:
                planned = self._evaluator.plan_for(report, cache, whole)
            else:
                planned = self._plan_again(report, cache, planned, whole)
        else:
            report.requeue_in(self._executor.clean_up_hooks(planned, cache.execution))
            self._replace(report, cache, planned)
        self.report_outcome(report, cache, planned, message)

    def _decide(self, report: Report, cache: ReconcileCache, planned: Planned) -> SyncDecision:
        """Decide on a sync; agents answer their cases first, and those that have not passed are left out of it."""
        decision = self._gate.decide(planned, cache)
        if decision.ends_choice:
            _acknowledge_request(report, cache)
            report.requeue_in(0.0)  # without the choice there may be something to sync
        gated = gated_objects(planned)
        evaluations, delay = self._object_evaluator.advance(
            planned, gated, may_begin=bool(decision.trigger), is_approved=is_approved(decision)
        )
        report.requeue_in(delay)
        report.state = replace(report.state, evaluations=evaluations)
        # what a running operation may do was decided when it was begun
        if cache.execution.operation is not None:
            return decision
        held = held_back(decision, planned, gated, evaluations)
        is_over = held.verdict is not None and HoldReason.EVALUATION_FAILED in held.verdict.holds
        # the request has its answer; another one begins another attempt
        if is_over and report.inputs.is_requested:
            _acknowledge_request(report, cache)
        return held

    def observe(self, report: Report, cache: ReconcileCache, target: Target) -> str:
        """Report how the cluster differs from a target, and return it as text; nothing is written to the cluster."""
        self._executor.take_answered(report.app.key, cache.execution)
        self._executor.restore_writes(report.inputs, cache)
        # not validated either: a suspended Application shows what differs also where the commit is not valid
        planned = self._evaluator.plan_for(report, cache, replace(target, locate=None))
        self._report_drift(report, cache, planned)
        report.outcome = replace(report.outcome, drift_objects=len(planned.drifted))
        # while a write has no outcome, other replicas leave its object to this Application
        with suppress(RecordUnavailable):  # the next reconcile tries again, and the comparison does not depend on it
            self._resolve(planned)
        return difference_of(planned.plan.outstanding)

    def _report_drift(self, report: Report, cache: ReconcileCache, planned: Planned) -> None:
        """Report what others changed, and count what they changed since the last reconcile."""
        report.drift = (*planned.drift, *cache.running.news(planned.observation.running))
        self._drift.observe(planned, cache.execution, report.previous_status)
        report.detected = {key: item.detected for key, item in cache.execution.findings.items()}

    def _replace(self, report: Report, cache: ReconcileCache, planned: Planned) -> None:
        """Replace Pods that run otherwise than declared, where the settings say so."""
        record = self._replacer.run(planned, cache, partial(self._widen, report))
        if record is None:
            return
        report.record = record
        written = {ObjectRef.from_path(step.ref) for step in record.steps if step.outcome is Outcome.SUCCEEDED}
        self._drift.replacing(cache.execution, written, EndedBy.SELF_HEAL)

    def _repair(
        self, report: Report, cache: ReconcileCache, planned: Planned, decision: SyncDecision
    ) -> tuple[Planned, SyncDecision, str]:
        """
        Restore what others changed, before the sync and whether one runs or not; return what is planned then.

        Also return why repairs wait. What a sync writes now is left to it: it need not be written twice.
        """
        # None where no sync runs, which is not the same as a sync without writes: it lets self-heal decide
        changing = {step.ref for step in decision.plan.writes} if decision.trigger else None
        due = self._repairer.due(planned, cache.execution, changing)
        # one attempt: the user sees how it ended, and requests another one
        if cache.requested_repair is report.inputs.repair:
            cache.requested_repair = RepairRequest()
        report.requeue_in(due.requeue_after)
        if not due.steps:
            return planned, decision, due.message
        report.stage = FailureReason.APPLY
        repaired = self._repairer.run(planned, cache, due.steps, partial(self._widen, report))
        self._note_repaired(report, cache, planned, repaired)
        # without a sync the repairs are all that the user requested; a sync acknowledges when it has ended
        if not decision.trigger and report.inputs.choice is None:
            _acknowledge_request(report, cache)
        report.requeue_in(_next_attempt(cache, self._clock.monotonic()))
        after = self._plan_repaired(report, cache, planned, due.steps)
        return after, self._decide(report, cache, after), due.message

    def _note_repaired(self, report: Report, cache: ReconcileCache, planned: Planned, repaired: Repaired) -> None:
        """Report what repairs restored, and end its drift."""
        if not repaired.results:
            return
        report.healed += repaired.healed
        restored = [result.change for result in repaired.results if result.outcome is Outcome.SUCCEEDED]
        self._drift.repaired(planned, cache.execution, restored, len(repaired.results) - len(restored))
        report.record = repaired.record or report.record

    def _plan_repaired(
        self, report: Report, cache: ReconcileCache, planned: Planned, steps: Sequence[Change]
    ) -> Planned:
        """Plan after repairs, without the other objects where the repairs were all there was to do."""
        # the shortcut does not read other objects, and a running write may still change one of them
        plan = planned.plan
        if not plan.writes and len(steps) == len(plan.repairs) and not self._writes.of(report.app.key).running:
            restored = {step.ref: step for step in steps}
            changes = tuple(restored.get(change.ref, change) for change in plan.changes)
            updated = self._evaluator.plan_updated(
                report, cache, replace(planned, plan=replace(plan, changes=changes, repairs=()))
            )
            if updated is not None:
                return updated
        return self._evaluator.plan_for(report, cache, replace(planned.target, locate=None))

    def prepare(self, report: Report, cache: ReconcileCache, target: Target, trigger: str = "") -> Planned:
        """Observe, validate and plan; restore or supersede an operation, and resolve writes."""
        self._executor.take_answered(report.app.key, cache.execution)
        self._executor.restore_writes(report.inputs, cache)
        # after the answers were taken: what they wrote is in the local copies by now
        planned = self._evaluator.plan_for(report, cache, target)
        # a restored operation needs a plan: it is what is left of the one that the crash interrupted
        self._executor.restore(planned, cache.execution)
        finished = self._executor.finish_ended(planned, cache.execution)
        report.record = finished or self._executor.supersede(planned, cache.execution, trigger) or report.record
        self._resolve(planned)
        # after the outcomes, which it reads; a sync that was begun since is newer
        report.record = report.record or self._executor.record_interrupted(planned, cache.execution)
        return planned

    def _resolve(self, planned: Planned) -> None:
        """Audit the outcomes of unresolved writes; the plan tells which took effect: those that it would not repeat."""
        observation = planned.observation
        self._writes.of(planned.app.key).resolve(planned.plan, observation.live, observation.unobserved.keys())

    def _plan_again(self, report: Report, cache: ReconcileCache, executed: Planned, target: Target) -> Planned:
        """Plan after an operation: only what it updated where it has ended, nothing while it waits for answers."""
        if self._writes.of(executed.app.key).running:
            return executed  # the last answer reconciles the Application again
        # an operation that still runs, or repairs beside it, leave more than updates to be planned
        if cache.execution.operation is None and not executed.plan.repairs:
            updated = self._evaluator.plan_updated(report, cache, executed)
            if updated is not None:
                return updated
        return self._evaluator.plan_for(report, cache, target)

    def report_decision(self, report: Report, planned: Planned, decision: SyncDecision) -> Planned:
        """Report a decision; return the plan with the advice in it."""
        report.planned = planned = replace(planned, plan=decision.plan)
        report.verdict = decision.verdict
        report.requeue_in(decision.requeue_after)
        return planned

    def execute(self, report: Report, cache: ReconcileCache, planned: Planned, decision: SyncDecision) -> str:
        """Run the operation as far as it can run now; return why it failed."""
        report.stage = FailureReason.APPLY
        operation = self._executor.begin_or_resume(planned, cache.execution, decision.trigger, decision.verdict)
        applied = self._executor.run(planned, cache.execution, operation, partial(self._store_inventory, report))
        report.healed += applied.healed
        written = {step.ref for step in planned.plan.writes}
        cache.execution.synced |= written & cache.execution.drifted.keys()
        self._drift.replacing(cache.execution, written, EndedBy.SYNC)
        report.peers = applied.peers
        report.requeue_in(applied.requeue_after)
        # an object that could not be observed may differ, so the commit is not applied completely
        if applied.is_complete:
            if operation.part:
                report.requeue_in(0.0)  # what was not approved is another plan
            elif not planned.plan.unobserved:
                report.state = report.state.with_applied(operation.commit.id, report.app)
            if not planned.plan.unobserved:
                _acknowledge(report, cache)
        if applied.is_over:
            finished = self._executor.finish(planned, cache.execution, operation, applied.message)
            report.record = finished or report.record
        return applied.message

    def _widen(self, report: Report, entries: Mapping[ObjectRef, InventoryEntry]) -> None:
        """Add entries to the inventory of the status; the running operation stays in it."""
        self._store_inventory(report, entries, report.previous_status.get("operation", {}))

    def _store_inventory(
        self, report: Report, entries: Mapping[ObjectRef, InventoryEntry], operation: Mapping[str, Any]
    ) -> None:
        """Add entries to the inventory, and write it with the running operation to the status where they differ."""
        inventory = report.state.inventory
        previous_status = report.previous_status
        wider = inventory.widened(entries)
        is_wider = wider.entries.keys() != inventory.entries.keys()
        # the digest of the permitted state too, by which the operator decides which spec of an Agent it may roll out
        has_new_permits = any(wider.entries[ref].permitted != _permitted(inventory, ref) for ref in entries)
        if is_wider or has_new_permits or operation != previous_status.get("operation", {}):
            fetched = report.commit.id if report.commit else ""
            report.manifest = self._statuses.write(
                report.manifest, executing_status(previous_status, wider, operation, report.now, fetched)
            )
        report.state = replace(report.state, inventory=wider)

    def report_outcome(self, report: Report, cache: ReconcileCache, planned: Planned, message: str) -> None:
        """Report phase, reason and message, and what the status keeps."""
        outcome = outcome_of(planned, report.verdict, cache.execution, message)
        # hooks of a deletion that have ended stay, so that a restart before the finalizer is removed does not run them
        # again
        kept = operation_to_status(cache.execution.operation) or cache.execution.completed_hooks
        state = replace(report.state, operation=kept)
        report.state = state.with_applied(planned.plan.revision, report.app) if outcome.is_applied else state
        if outcome.is_applied:
            planned.states.record_all(report.app, planned.target.declared, _as_declared(planned), state.inventory)
        report.state = replace(report.state, inventory=planned.states.stamped(report.state.inventory))
        report.outcome = outcome
        report.requeue_in(outcome.requeue_after)
        if outcome.phase is Phase.SYNCED:
            _acknowledge(report, cache)
            # messages of a failed attempt must not appear beside a state that is in sync
            cache.execution.failed.clear()


def _is_part(cache: ReconcileCache, decision: SyncDecision) -> bool:
    """Whether a sync is limited to some steps, by an approval or an evaluation."""
    operation = cache.execution.operation
    if operation is not None:
        return bool(operation.part)
    return decision.verdict is not None and bool(decision.verdict.steps)


def _permitted(inventory: Inventory, ref: ObjectRef) -> str:
    return inventory.entries[ref].permitted if ref in inventory else ""


def _as_declared(planned: Planned) -> Iterator[ObjectRef]:
    """Yield the objects that are as Git declares them, and that a sync applies."""
    drifted = {step.ref for step in planned.plan.repairs}
    for change in planned.plan.changes:
        is_applied = change.desired is not None and not change.is_write and not change.options.hooks
        if is_applied and not change.unobserved and change.finished is None and change.ref not in drifted:
            yield change.ref


def _next_attempt(cache: ReconcileCache, now: float) -> float | None:
    """Return the seconds until the first repair that failed is tried again, None where none failed."""
    delays = [max(failed.retry_at - now, 0.0) for failed in cache.execution.failed_repairs.values()]
    return min(delays, default=None)


def _acknowledge(report: Report, cache: ReconcileCache) -> None:
    """Reset the retries and the carried out request; a request that was made meanwhile stays."""
    cache.execution.retry = RetryState()
    _acknowledge_request(report, cache)


def _acknowledge_request(report: Report, cache: ReconcileCache) -> None:
    if cache.requested_by == report.inputs.requested_by:
        cache.requested_by = ""
    report.inputs = report.inputs.acknowledge_request()
