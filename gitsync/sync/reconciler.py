"""Reconcile the cluster with a target: observe → plan → decide → apply → observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gitsync.apply.owner_writes import WritesByOwner
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef
from gitsync.sync.cache import ReconcileCache, RetryState
from gitsync.sync.decision import SyncDecision, SyncGate
from gitsync.sync.evaluate import SyncEvaluator
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.input import Target
from gitsync.sync.operation import operation_to_status
from gitsync.sync.planner import Planned
from gitsync.sync.status.build import executing_status
from gitsync.sync.status.outcome import outcome_of
from gitsync.sync.status.report import FailureReason, Report
from gitsync.sync.status.writer import StatusWriter


class Reconciler:
    """Bring the cluster to a target as far as policy, reviews and time allow; the results go into the report."""

    def __init__(
        self,
        writes: WritesByOwner,
        evaluator: SyncEvaluator,
        gate: SyncGate,
        executor: SyncExecutor,
        statuses: StatusWriter,
    ) -> None:
        self._writes = writes
        self._evaluator = evaluator
        self._gate = gate
        self._executor = executor
        self._statuses = statuses

    def reconcile(self, report: Report, cache: ReconcileCache, target: Target) -> None:
        """Observe, plan, and run the steps that the gate allows."""
        planned = self.prepare(report, cache, target)
        report.drift = planned.drift
        decision = self._gate.decide(planned, cache)
        planned = self.report_decision(report, planned, decision)
        message = decision.message
        if decision.trigger:
            message = self.execute(report, cache, planned, decision)
            planned = self._plan_again(report, cache, planned, replace(target, locate=None))
        else:
            report.requeue_in(self._executor.clean_up_hooks(planned, cache.execution))
        self.report_outcome(report, cache, planned, message)

    def prepare(self, report: Report, cache: ReconcileCache, target: Target, trigger: str = "") -> Planned:
        """Observe, validate and plan; restore or supersede an operation, and resolve writes."""
        self._executor.take_answered(report.app.key, cache.execution)
        planned = self._evaluator.plan_for(report, cache, target)
        self._executor.restore(planned, cache.execution)
        finished = self._executor.finish_ended(planned, cache.execution)
        report.record = finished or self._executor.supersede(planned, cache.execution, trigger) or report.record
        observation = planned.observation
        self._writes.of(report.app.key).resolve(planned.plan, observation.live, observation.unobserved.keys())
        return planned

    def _plan_again(self, report: Report, cache: ReconcileCache, executed: Planned, target: Target) -> Planned:
        """Plan after an operation: only what it updated where it has ended, nothing while it waits for answers."""
        if self._writes.of(executed.app.key).running:
            return executed  # the last answer reconciles the Application again
        if cache.execution.operation is None:
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
        report.peers = applied.peers
        report.requeue_in(applied.requeue_after)
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

    def _store_inventory(
        self, report: Report, entries: Mapping[ObjectRef, InventoryEntry], operation: Mapping[str, Any]
    ) -> None:
        """Add entries to the inventory, and write it with the running operation to the status where they differ."""
        inventory = report.state.inventory
        previous_status = report.previous_status
        wider = inventory.widened(entries)
        if wider.entries.keys() != inventory.entries.keys() or operation != previous_status.get("operation", {}):
            report.manifest = self._statuses.write(
                report.manifest, executing_status(previous_status, wider, operation, report.now)
            )
        report.state = replace(report.state, inventory=wider)

    def report_outcome(self, report: Report, cache: ReconcileCache, planned: Planned, message: str) -> None:
        """Report phase, reason and message, and what the status keeps."""
        outcome = outcome_of(planned, report.verdict, cache.execution, message)
        kept = operation_to_status(cache.execution.operation) or cache.execution.completed_hooks
        state = replace(report.state, operation=kept)
        report.state = state.with_applied(planned.plan.revision, report.app) if outcome.is_applied else state
        report.outcome = outcome
        report.requeue_in(outcome.requeue_after)
        if outcome.phase is Phase.SYNCED:
            _acknowledge(report, cache)
            cache.execution.failed.clear()


def _acknowledge(report: Report, cache: ReconcileCache) -> None:
    """Reset the retries and the carried out request; a request that was made meanwhile stays."""
    cache.execution.retry = RetryState()
    if cache.requested_by == report.inputs.requested_by:
        cache.requested_by = ""
    report.inputs = report.inputs.acknowledge_request()
