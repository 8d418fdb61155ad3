"""Reconcile the cluster with a target: observe → plan → decide → apply → observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from gitsync.apply.owner_writes import WritesByOwner
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.options import HookPhase
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, LiveCache
from gitsync.state.state import State
from gitsync.sync.cache import ReconcileCache, RetryState
from gitsync.sync.decision import DELETE, SyncDecision, SyncGate
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.incremental.finished import with_finished
from gitsync.sync.incremental.observed_objects import health_by_ref, updated_inventory
from gitsync.sync.incremental.written import after_updates
from gitsync.sync.input import Target
from gitsync.sync.observe import Observation, confirm_missing, created_namespace, observe
from gitsync.sync.operation import operation_to_status
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.status.build import executing_status
from gitsync.sync.status.outcome import outcome_of
from gitsync.sync.status.report import FailureReason, Report
from gitsync.sync.status.writer import StatusWriter
from gitsync.sync.validation import validate_once


class Reconciler:
    """Bring the cluster to a target as far as policy, reviews and time allow; the results go into the report."""

    def __init__(
        self,
        cluster: Cluster,
        live: LiveCache,
        writes: WritesByOwner,
        planner: Planner,
        gate: SyncGate,
        executor: SyncExecutor,
        statuses: StatusWriter,
        state: State,
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._writes = writes
        self._planner = planner
        self._gate = gate
        self._executor = executor
        self._statuses = statuses
        self._state = state

    def reconcile(self, report: Report, cache: ReconcileCache, target: Target) -> None:
        """Observe, plan, and run the steps that the gate allows."""
        planned = self._prepare(report, cache, target)
        report.drift = planned.drift
        decision = self._gate.decide(planned, cache)
        planned = self._take(report, planned, decision)
        message = decision.message
        if decision.trigger:
            message = self._execute(report, cache, planned, decision)
            planned = self._plan_again(report, cache, planned, replace(target, locate=None))
        else:
            report.requeue_in(self._executor.clean_up_hooks(planned, cache.execution))
        self._conclude(report, cache, planned, message)

    def delete_all(self, report: Report, cache: ReconcileCache) -> bool:
        """
        Delete the objects in the inventory of a deleted Application; return whether that is complete.

        Only an Application that requires approvals waits for one, see ``decide_deletion``.
        """
        target, message = Target(Commit(report.state.applied)), ""
        planned = self._prepare(report, cache, target, DELETE)
        decision = self._gate.decide_deletion(planned, cache.execution)
        self._take(report, planned, decision)
        if decision.trigger:
            message = self._execute(report, cache, planned, decision)
            planned = self._plan(report, cache, target)
        self._conclude(report, cache, planned, message)
        return cache.execution.operation is None and not planned.plan.writes and not planned.plan.unobserved

    def run_deletion_hooks(self, report: Report, cache: ReconcileCache, target: Target, phase: HookPhase) -> bool:
        """
        Run the hooks of a deleted Application, which are the target; return whether all of them succeeded.

        A failed hook is retried with the delays of the Application's retry policy.
        """
        before = cache.execution.operation
        planned, message = self._prepare(report, cache, target, phase.value), ""
        is_complete = before is not None and (before.trigger, before.ending) == (phase.value, "")
        decision = self._gate.decide_hooks(planned, cache.execution, phase)
        self._take(report, planned, decision)
        if decision.trigger and not is_complete:
            message = self._execute(report, cache, planned, decision)
            is_complete = cache.execution.operation is None and not message
        report.observation = self._observe(report, cache, target)
        self._conclude(report, cache, planned, message)
        return is_complete

    def _prepare(self, report: Report, cache: ReconcileCache, target: Target, trigger: str = "") -> Planned:
        """Observe, validate and plan; restore or supersede an operation, and resolve writes."""
        self._executor.take_answered(report.app.key, cache.execution)
        planned = self._plan(report, cache, target)
        self._executor.restore(planned, cache.execution)
        finished = self._executor.finish_ended(planned, cache.execution)
        report.record = finished or self._executor.supersede(planned, cache.execution, trigger) or report.record
        observation = planned.observation
        self._writes.of(report.app.key).resolve(planned.plan, observation.live, observation.unobserved.keys())
        return planned

    def _plan(self, report: Report, cache: ReconcileCache, target: Target) -> Planned:
        observation = self._observe(report, cache, target)
        if target.locate is not None:
            report.stage, report.observation = FailureReason.RENDER, None
            validate_once(observation, target.locate, cache.checks)
        report.stage, report.observation = FailureReason.PLAN, observation
        report.planned = planned = self._planner.plan(report.given, target, observation, cache.plans)
        return planned

    def _plan_again(self, report: Report, cache: ReconcileCache, before: Planned, target: Target) -> Planned:
        """Plan after an operation: only what it updated where it has ended, nothing while it waits for answers."""
        if self._writes.of(before.app.key).running:
            return before  # the last answer reconciles the Application again
        after = None
        if cache.execution.operation is None:
            report.stage = FailureReason.OBSERVE
            after = after_updates(before, report.given, self._planner, self._cluster, self._live)
        if after is None:
            return self._plan(report, cache, target)
        report.stage, report.observation, report.planned = FailureReason.PLAN, after.observation, after
        cache.plans.plan = after.plan
        return after

    def _observe(self, report: Report, cache: ReconcileCache, target: Target) -> Observation:
        """Observe the objects of the target and of the inventory, which is updated to what exists."""
        report.stage = FailureReason.OBSERVE
        app, desired, inventory = report.app, target.desired, report.state.inventory
        selection = cache.objects.select(desired, inventory)
        self._state.tracked.track_more(
            app.key, selection.versions.keys()
        )  # first: a change from now on reconciles again
        found = confirm_missing(observe(selection, self._cluster, self._live), inventory, self._cluster)
        created = [ref for ref, manifest in created_namespace(app).items() if desired.get(ref) == manifest]
        self._state.declarations.set_declared(app.key, frozenset(desired).difference(created))
        objects = cache.objects.update(app, found.live, self._live)
        observation = replace(found, inventory=updated_inventory(app, found, objects))
        observation = with_finished(app, observation, self._live, report.now)
        health = health_by_ref(app, observation, objects, self._live)
        for ref in target.hooks:
            del health[ref]
        observation = replace(observation, health=health)
        report.state = replace(report.state, inventory=observation.inventory)
        return observation

    def _take(self, report: Report, planned: Planned, decision: SyncDecision) -> Planned:
        """Report a decision; return the plan with the advice in it."""
        report.planned = planned = replace(planned, plan=decision.plan)
        report.verdict = decision.verdict
        report.requeue_in(decision.requeue_after)
        return planned

    def _execute(self, report: Report, cache: ReconcileCache, planned: Planned, decision: SyncDecision) -> str:
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
        before, previous = report.state.inventory, report.previous_status
        wider = before.widened(entries)
        if wider.entries.keys() != before.entries.keys() or operation != previous.get("operation", {}):
            report.manifest = self._statuses.write(
                report.manifest, executing_status(previous, wider, operation, report.now)
            )
        report.state = replace(report.state, inventory=wider)

    def _conclude(self, report: Report, cache: ReconcileCache, planned: Planned, message: str) -> None:
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
    if cache.requested_by == report.given.requested_by:
        cache.requested_by = ""
    report.given = report.given.acknowledge_request()
