"""Execution: carry an operation as far as it goes now, and account for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gitsync.apply.execute import Applier
from gitsync.apply.hooks import Hooks, is_hook
from gitsync.apply.types import ApplyProgress, ApplyRequest, StepResult
from gitsync.errors import GitsyncError, TransientError
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.health import Health
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import metadata_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import HookPhase
from gitsync.plan.order import POST_SYNC
from gitsync.ports import Clock, LiveCache, Records
from gitsync.sync.cache import Operation, ReconcileCache
from gitsync.sync.history import record_steps, save_record
from gitsync.sync.observe import created_namespace, health_of
from gitsync.sync.operation import operation_from_status, operation_to_status
from gitsync.sync.reconcile import FailureReason, Reconcile
from gitsync.sync.retry import record_failure, reset
from gitsync.sync.state_store import StateStore
from gitsync.sync.status.build import phase_since
from gitsync.sync.status.writer import StatusWriter

_RESYNC_PERIOD = 10.0
"""Watch events take a waiting sync up again; should one be missed, so does this many seconds."""
_HOOK_DELETE_RETRY, _HOOK_DELETE_REFUSED_RETRY = 5.0, 600.0
"""So long a delete of a hook rests that was not taken, and one that was refused: only a person can change that."""
_HOOKS_OF_DELETION = {phase.value: phase for phase in HookPhase if phase.is_of_deletion}
"""The triggers of operations that run hooks only, because the application is being deleted."""
_PEER_TIMEOUT, _PEER_POLL = 10.0, 0.2
"""So long a prune waits for other applications of the repository, looking so often."""


class SyncExecutor:
    """
    Run one operation of an application at a time: hooks before, the plan's batches, hooks with it and after it.

    What waits holds no worker: the next look goes on where this one stopped. ``nudge`` is called with applications
    that should look at Git now; it is set once, before the start.
    """

    def __init__(
        self,
        applier: Applier,
        hooks: Hooks,
        statuses: StatusWriter,
        records: Records,
        state: StateStore,
        live: LiveCache,
        clock: Clock,
    ) -> None:
        self._applier = applier
        self._hooks = hooks
        self._statuses = statuses
        self._records = records
        self._state = state
        self._live = live
        self._clock = clock
        self.request_poll: Callable[[Sequence[str]], None] = lambda keys: None

    def run(self, run: Reconcile, cache: ReconcileCache, trigger: str) -> bool:
        """Begin an operation, or go on with the one under way, for the turn's plan; tell whether it has ended well."""
        run.stage = FailureReason.APPLY
        plan = run.plan
        assert plan is not None
        assert run.verdict is not None
        operation = cache.operation
        if operation is None:
            operation = cache.operation = self._begin(run, cache, plan, trigger)
        operation.plan = plan
        if run.verdict.approver:
            operation.approver, operation.approved = run.verdict.approver, plan
        cache.has_unresolved_writes = True  # also when the audit fails on the way
        hold = self._inventory_writer(run, operation)
        job = self._job(run, plan, operation.commit, hold, operation.id, operation.approver)
        done = self._run_phases(run, operation, job)
        operation.steps.update(record_steps(done.results))
        cache.has_unresolved_writes = bool(operation.hooks) or any(result.is_unknown for result in done.results)
        return self._complete_or_requeue(run, cache, operation, done)

    def restore(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Take up, at the first look after a start, the operation that a crash interrupted."""
        assert run.plan is not None
        if not cache.is_operation_restored and cache.operation is None and run.operation:
            cache.operation = operation_from_status(run.operation, run.plan, run.now, self._clock.monotonic())
        cache.is_operation_restored = True

    def clean_up_hooks(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Delete hooks that are left over from syncs that ended; what the API server does not take is tried again."""
        plan = run.plan
        assert plan is not None
        if cache.operation is not None or not any(is_hook(change) for change in plan.changes):
            return
        now, had_open_intents = self._clock.monotonic(), cache.has_unresolved_writes
        if now >= cache.hook_cleanup_due:
            cache.has_unresolved_writes = True  # also when the audit fails on the way
            job = self._job(run, plan, run.target_commit or Commit(run.applied), lambda entries: None)
            results = self._hooks.sweep(job, {})
            cache.has_unresolved_writes = had_open_intents or any(result.is_unknown for result in results)
            delays = [_delay(result.error) for result in results if result.error is not None]
            cache.hook_cleanup_due = now + max(delays, default=0.0)
        if now < cache.hook_cleanup_due:
            run.requeue_in(cache.hook_cleanup_due - now)

    def supersede(self, run: Reconcile, cache: ReconcileCache, trigger: str = "") -> None:
        """
        End an operation that still waits when there is a newer commit: what it did stays, the new one goes on.

        Where the application is being deleted, all but the operation of this very trigger are ended.
        """
        operation = cache.operation
        if operation is None:
            return
        if run.app.is_deleted:
            newer = "the deletion of the Application" if operation.trigger != trigger else ""
        else:
            newer = (
                run.target_commit.id[:12]
                if run.target_commit is not None and run.target_commit.id != operation.commit.id
                else ""
            )
        if newer:
            message = f"superseded by {newer} while it waited for {operation.waiting}"
            self.finish(run, cache, operation, message, superseded=True)

    def finish(
        self,
        run: Reconcile,
        cache: ReconcileCache,
        operation: Operation,
        message: str = "",
        *,
        superseded: bool = False,
    ) -> None:
        """End an operation, its approval too, and keep its record; one that did nothing and ended well leaves none."""
        if operation.approved is not None:
            self._records.end_approval(run.app.key, operation.approved.digest)
        cache.operation = None
        if operation.steps or message:
            took = round((self._clock.monotonic() - operation.began) * 1000)
            why = run.pin.message if run.pin is not None and operation.trigger == "rollback" else ""
            run.record = save_record(operation, run.app, self._records, message, took, why=why, superseded=superseded)

    def _begin(self, run: Reconcile, cache: ReconcileCache, plan: Plan, trigger: str) -> Operation:
        return Operation(
            id=uuid.uuid4().hex[:16],
            commit=run.target_commit or Commit(run.applied),
            trigger=trigger,
            initiator=(run.requested_by or "manual") if trigger == "manual" else "automated",
            started=run.now,
            began=self._clock.monotonic(),
            plan=plan,
            begun_with=plan,
        )

    def _inventory_writer(
        self, run: Reconcile, operation: Operation
    ) -> Callable[[Mapping[ObjectRef, InventoryEntry]], None]:
        """Return how objects are taken into the inventory before an operation writes them."""
        assert run.observation is not None
        created, desired = created_namespace(run.app), run.observation.desired

        def is_left(ref: ObjectRef) -> bool:
            is_only_created = ref in created and desired.get(ref) == created[ref]
            return is_only_created or operation.trigger == HookPhase.POST_DELETE.value  # then nobody prunes any more

        def hold(entries: Mapping[ObjectRef, InventoryEntry]) -> None:
            wider = run.inventory.widened({ref: held for ref, held in entries.items() if not is_left(ref)})
            under_way = operation_to_status(operation)
            if wider.entries.keys() != run.inventory.entries.keys() or under_way != run.status_before.get(
                "operation", {}
            ):
                since = phase_since(run.status_before, "Executing", run.now)
                status = {**run.status_before, **since, "inventory": (), "packedInventory": ""}
                status |= {"operation": under_way, **wider.to_status()}
                run.manifest = self._statuses.write(run.manifest, {k: v for k, v in status.items() if v})
            run.inventory = wider

        return hold

    def _job(
        self,
        run: Reconcile,
        plan: Plan,
        commit: Commit,
        hold: Callable[[Mapping[ObjectRef, InventoryEntry]], None],
        sync: str = "",
        approver: str = "",
    ) -> ApplyRequest:
        assert run.observation is not None
        return ApplyRequest(
            run.app,
            plan,
            commit,
            sync,
            run.observation.versions,
            hold,
            lambda ref, manifest: health_of(ref, manifest, self._live, run.app.health_checks),
            approver=approver,
        )

    def _run_phases(self, run: Reconcile, operation: Operation, job: ApplyRequest) -> ApplyProgress:
        """Run part after part until one fails or has to wait; a failure runs the hooks for it."""
        results: tuple[StepResult, ...] = ()
        for part in self._phases(run, operation, job):
            results += part.results
            if any(result.outcome is Outcome.FAILED for result in part.results) or self._is_late(run, operation):
                self._hooks.stop(job, operation.hooks)
                if not run.app.is_deleted:
                    results += self._hooks.run(job, operation.hooks, HookPhase.SYNC_FAIL).results
                return ApplyProgress(results, part.waiting)
            if part.waiting:
                return ApplyProgress(results, part.waiting)
        return ApplyProgress(results)

    def _phases(self, run: Reconcile, operation: Operation, job: ApplyRequest) -> Iterator[ApplyProgress]:
        """Yield what each part of a sync came to, in order; each is begun only when the one before has ended."""
        phase = _HOOKS_OF_DELETION.get(operation.trigger)
        if phase is not None:
            yield self._hooks.run(job, operation.hooks, phase)
            left = [done for done in self._hooks.sweep(job, operation.hooks) if isinstance(done.error, TransientError)]
            yield ApplyProgress(waiting=f"{left[0].change.ref} to be deleted ({left[0].message})" if left else "")
            return
        yield self._hooks.run(job, operation.hooks, HookPhase.PRE_SYNC)
        yield self._apply(run, operation, job)
        yield self._hooks.run(job, operation.hooks, HookPhase.SYNC)
        if any(is_hook(change) and change.stage == POST_SYNC for change in job.plan.changes):
            yield ApplyProgress(waiting=_unhealthy(run, job, self._live))
        yield self._hooks.run(job, operation.hooks, HookPhase.POST_SYNC)

    def _apply(self, run: Reconcile, operation: Operation, job: ApplyRequest) -> ApplyProgress:
        lagging = self._wait_for_peers(run, operation)
        due = tuple(change for change in job.plan.changes if not is_hook(change) and _is_due(change, bool(lagging)))
        done = self._applier.execute(replace(job, plan=replace(job.plan, changes=due)))
        if lagging and not done.waiting:
            run.requeue_in(_PEER_POLL)
            return replace(done, waiting=lagging)
        return done

    def _wait_for_peers(self, run: Reconcile, operation: Operation) -> str:
        """
        Return what a prune waits for: applications that may have taken over what left this one.

        They are asked to look at Git at once; one that does not in time is waited for no longer.
        """
        is_pruning = any(change.action is Action.PRUNE for change in operation.plan.writes)
        if run.target_commit is None or run.app.is_deleted or not is_pruning:
            return ""
        lagging = self._state.applications_behind(run.app.key, run.app.source.repo_url, run.target_commit.id)
        if not lagging or self._clock.monotonic() - operation.began > _PEER_TIMEOUT:
            return ""
        self.request_poll(lagging)
        return f"{lagging[0]} to look at commit {run.target_commit.id[:12]}, since it may declare what would be pruned"

    def _is_late(self, run: Reconcile, operation: Operation) -> bool:
        return self._clock.monotonic() - operation.began >= run.app.sync.health_timeout

    def _complete_or_requeue(
        self, run: Reconcile, cache: ReconcileCache, operation: Operation, done: ApplyProgress
    ) -> bool:
        """Turn what was done into the operation's end, or its next look; tell whether it has ended well."""
        now = self._clock.monotonic()
        failed = [result for result in done.results if result.outcome is Outcome.FAILED]
        if operation.trigger == "drift":
            healed = sum(1 for result in done.results if result.outcome is Outcome.SUCCEEDED)
            run.healed += healed
            if healed:
                cache.self_heals.append(now)
        if done.waiting and not failed and not self._is_late(run, operation):
            operation.waiting = done.waiting
            run.requeue_in(_RESYNC_PERIOD)
            return False
        message = f"{len(failed)} of {len(operation.steps)} objects failed" if failed else ""
        if done.waiting and not failed:
            message = f"waited {run.app.sync.health_timeout:.0f} s for {done.waiting}"
        cache.failed = {result.change.ref: result for result in failed}
        if message:
            run.requeue_in(record_failure(cache, run, failed, now))
            cache.retry.message = message
        else:
            reset(cache, run)
            run.mark_applied(operation.commit.id)
        run.message = message
        self.finish(run, cache, operation, message)
        if operation.hooks:
            run.requeue_in(_HOOK_DELETE_RETRY)  # then it is seen whether their deletes were taken
        return not message


def _delay(error: GitsyncError) -> float:
    """Return how many seconds a delete that was not taken rests before it is tried again."""
    return error.retry_after or _HOOK_DELETE_RETRY if isinstance(error, TransientError) else _HOOK_DELETE_REFUSED_RETRY


def is_terminating(change: Change) -> bool:
    """Whether the step deletes what is on its way out already."""
    return change.action is Action.PRUNE and bool(metadata_of(change.live or {}).get("deletionTimestamp"))


def _is_due(change: Change, is_waiting_for_peers: bool) -> bool:
    """Whether the step may be carried out now."""
    return not is_terminating(change) and not (is_waiting_for_peers and change.action is Action.PRUNE)


def _unhealthy(run: Reconcile, job: ApplyRequest, live: LiveCache) -> str:
    """Return what the hooks after a sync wait for: the first object that is not healthy."""
    assert run.observation is not None
    for change in job.plan.changes:
        if change.desired is not None and not is_hook(change) and change.action is Action.NOTHING:
            status = health_of(change.ref, run.observation.live.get(change.ref), live, run.app.health_checks)
            if status.health in (Health.PROGRESSING, Health.DEGRADED, Health.MISSING):
                return f"{change.ref} to be healthy, which is {status.health.value}"
    if any(change.is_write and not is_hook(change) for change in job.plan.changes):
        return "the applied objects to be seen again"
    return ""
