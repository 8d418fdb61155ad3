"""Run the operation of an Application as far as it can run now."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from gitsync.apply.change import ApplyProgress, ApplyRequest, StepResult
from gitsync.apply.execute import Applier
from gitsync.apply.hooks import HOOK_DELETION, Hooks, is_hook
from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import OUTAGE_PAUSE, GitsyncError, TransientError
from gitsync.objects.application import SyncPolicy
from gitsync.objects.change import Action, Change, Verdict
from gitsync.objects.health import Health
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import metadata_of
from gitsync.objects.options import HookPhase, Reconcile
from gitsync.objects.record import AuditFilter, AuditHead, AuditRecord, Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.hook_needs import is_needed_by_hooks
from gitsync.plan.order import POST_SYNC
from gitsync.ports import LiveCache, Ports
from gitsync.state.declarations import Declarations, branch_of
from gitsync.sync.cache import ExecutionCache, Operation, ReconcileCache, RetryState
from gitsync.sync.input import ReconcileInput
from gitsync.sync.observe import created_namespace, health_of
from gitsync.sync.operation import (
    Ending,
    operation_from_status,
    operation_to_status,
    record_steps,
    save_record,
    unrecorded_sync,
)
from gitsync.sync.planner import Planned

StoreInventory = Callable[[Mapping[ObjectRef, InventoryEntry], Mapping[str, Any]], None]
"""Add entries to the inventory, and the running operation, to the status; return once both are stored."""

_APPLIES = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE, Action.ADOPT})
"""The actions after which an object is as Git declares it."""
_RESYNC_PERIOD = 10.0
"""Seconds after which a waiting sync is reconciled even if a watch event was missed."""
_HOOK_DELETE_RETRY = 5.0
_HOOK_DELETE_REFUSED_RETRY = 600.0
"""Retry delay in seconds for a failed hook deletion: transient error, and permanent refusal."""
_HOOKS_OF_DELETION = {phase.value: phase for phase in HookPhase if phase.is_of_deletion}
"""The triggers of operations that only run hooks, because the Application is being deleted."""
_PAGE = 500
"""Audit records that are read at once: each has the differences of its object."""
CONFLICTS = 5
"""How often a step is planned again because its object changed since it was planned; then it has failed."""
_DEFINITION_POLL = 2.0
"""Seconds between two attempts to write what was judged by the former state of its definition."""
_PEER_POLL = 0.2
"""Seconds between two checks of the Applications that a prune waits for, at first; later the resync period."""


@dataclass(frozen=True, slots=True)
class OperationResult:
    """
    What one run of an operation did.

    ``message`` is why the operation failed; ``healed`` counts corrected objects; ``peers`` are the Applications that
    a prune waits for, and that have to poll Git now.
    """

    operation: Operation
    is_over: bool
    message: str = ""
    healed: int = 0
    peers: tuple[str, ...] = ()
    requeue_after: float | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the operation has ended successfully."""
        return self.is_over and not self.message


@dataclass(frozen=True, slots=True)
class _OperationRun:
    """One run of an operation for a plan."""

    planned: Planned
    operation: Operation
    request: ApplyRequest
    postponed: frozenset[ObjectRef] = frozenset()
    """Objects whose correction waits, since another controller sets the same fields back."""
    answered: tuple[StepResult, ...] = ()
    """The results of earlier writes that were answered since the last run."""


class SyncExecutor:
    """
    Run one operation of an Application at a time: PreSync hooks, the plan's batches, Sync and PostSync hooks.

    Waiting holds no worker: the next reconcile resumes here.
    """

    def __init__(
        self, ports: Ports, applier: Applier, writes: WritesByOwner, hooks: Hooks, declarations: Declarations
    ) -> None:
        self._applier = applier
        self._writes = writes
        self._hooks = hooks
        self._records = ports.records
        self._declarations = declarations
        self._live = ports.live
        self._clock = ports.clock

    def begin_or_resume(
        self, planned: Planned, cache: ExecutionCache, trigger: str, verdict: Verdict | None
    ) -> Operation:
        """Return the running operation, or a new one, with the current plan, its approver and what that approved."""
        operation = cache.operation
        if operation is None:
            operation = cache.operation = self._begin(planned, trigger)
        # it has fewer steps after each write; ``approved`` keeps the plan that was reviewed
        operation.plan = planned.plan
        # a resumed operation is allowed by the approval that it has, and its verdict names no approver
        if verdict is not None and verdict.approver:
            operation.approver = verdict.approver
            operation.approved = planned.plan
        # what an approval or an evaluation limits it to; a verdict on a resumed operation has no limit of its own
        if verdict is not None and (verdict.approver or verdict.steps):
            operation.part = verdict.steps
        return operation

    def run(
        self, planned: Planned, cache: ExecutionCache, operation: Operation, store: StoreInventory
    ) -> OperationResult:
        """Run an operation until it ends, fails or has to wait; ``finish`` has to be called when it is over."""
        request = self._request(planned, operation, store)
        postponed = self._postponed(operation, cache)
        answered = tuple(cache.answered)
        cache.answered = []
        run = _OperationRun(planned, operation, request, postponed, tuple(filter(_counts_late, answered)))
        done = self._run_phases(run)
        for hook in operation.hooks.values():  # a failure counts in each run until the operation has ended
            hook.is_counted = hook.result is not None and hook.result.outcome is Outcome.SUCCEEDED
        return self._complete_or_requeue(run, cache, done)

    def _postponed(self, operation: Operation, cache: ExecutionCache) -> frozenset[ObjectRef]:
        """Return the objects that a self-heal leaves for later; every other sync applies all."""
        # a sync for a commit or a user applies everything, also what another controller sets back
        if operation.trigger != "drift":
            return frozenset()
        now = self._clock.monotonic()
        heals = cache.self_heals
        return frozenset(step.ref for step in operation.plan.writes if heals.remaining(step, now) > 0)

    def take_answered(self, application: str, cache: ExecutionCache) -> None:
        """Keep the results of writes that were answered since the last reconcile, for the operation that made them."""
        operation = cache.operation.id if cache.operation is not None else ""
        writes = self._writes.of(application)
        answered = writes.take()
        repairs = cache.slow_repairs
        cache.answered_repairs += [
            (repairs[write.request.sync], write.result) for write in answered if write.request.sync in repairs
        ]
        if not writes.running:
            repairs.clear()
        # an answer for an operation that has ended meanwhile is in the audit; the next one does not count it
        cache.answered += [write.result for write in answered if write.request.sync == operation]

    def restore_writes(self, inputs: ReconcileInput, cache: ReconcileCache) -> None:
        """
        Before the first plan after a start, note what was written since the status: it has older states of that.

        Without that the writes of a sync that a crash interrupted would be taken for changes by others, and it would
        lack its record, see ``record_interrupted``.
        """
        if cache.execution.is_operation_restored:
            return
        head = inputs.state.audit
        newest = self._records.head(inputs.app.key)
        # most often nothing was written, which one small query tells
        if newest is None or (head is not None and newest.id <= head.id):
            return
        newest_first: dict[str, None] = {}
        for intents in self._links(inputs.app.key, head, newest, outcome=Outcome.INTENDED.value):
            # without a head no sync has ended, and the status has no state
            if head is not None:
                cache.plans.applied.begin(ObjectRef.from_path(intent.resource) for intent in intents)
            # others have no record in the history
            newest_first |= dict.fromkeys(intent.sync for intent in intents if "trigger" in intent.details)
        # what the status keeps is continued, and recorded at its end
        newest_first.pop(str(inputs.state.operation.get("id", "")), None)
        if newest_first:
            # a sync without a success may have no record on purpose, since it failed as the one before
            succeeded = self._links(inputs.app.key, head, newest, outcome=Outcome.SUCCEEDED.value)
            may_have = {link.sync for links in (*succeeded, self._records.unresolved(inputs.app.key)) for link in links}
            cache.execution.unrecorded = tuple(sync for sync in reversed(newest_first) if sync in may_have)

    def _links(
        self, application: str, head: AuditHead | None, newest: AuditHead | None, **wanted: Unpack[AuditFilter]
    ) -> Iterator[list[AuditRecord]]:
        """Yield the links about an Application after a head and until the newest one, newest first, page by page."""
        after = head.id if head is not None else 0
        page_end = newest.id + 1 if newest is not None else 0
        while page_end > after + 1:
            links = self._records.audit_records(application, limit=_PAGE, before=page_end, **wanted)
            since = [link for link in links if link.id > after]
            yield since
            page_end = since[-1].id if len(since) == _PAGE else 0

    def record_interrupted(self, planned: Planned, cache: ExecutionCache) -> SyncRecord | None:
        """
        Save the records of syncs that an earlier process, or another replica, made and did not record; return the last.

        Called once the audit has the outcomes of their writes. A record that was saved meanwhile is the one.
        """
        record = None
        key = planned.app.key
        while cache.unrecorded:
            pages = self._links(key, None, self._records.head(key), sync=cache.unrecorded[0])
            links = [link for page in pages for link in page][::-1]
            # else retention dropped its intents since the start, and what it did is not known any more
            if any(link.outcome is Outcome.INTENDED for link in links):
                wanted = unrecorded_sync(planned.app, links, planned.target.commit)
                if wanted is None:
                    return record  # a write is still unresolved
                # the outcomes of writes without an answer are known now
                if any(step.outcome is Outcome.SUCCEEDED for step in wanted.steps):
                    record = self._records.save(wanted, keep=planned.app.history_limit)
            cache.unrecorded = cache.unrecorded[1:]
        return record

    def restore(self, planned: Planned, cache: ExecutionCache) -> None:
        """At the first reconcile after a start, restore the operation that a crash interrupted."""
        kept = planned.inputs.state.operation
        # only once: later the status may still have an operation that this process has ended
        if not cache.is_operation_restored and cache.operation is None and kept:
            cache.operation = operation_from_status(kept, planned.plan, planned.inputs.now, self._clock.monotonic())
        cache.is_operation_restored = True

    def clean_up_hooks(self, planned: Planned, cache: ExecutionCache) -> float | None:
        """
        Delete leftover hooks of ended syncs; return the seconds until failed deletes are retried.

        A delete that the API server does not accept is retried later.
        """
        # a running operation deletes its own hooks, when it knows how they ended
        if cache.operation is not None or not any(is_hook(change) for change in planned.plan.changes):
            return None
        now = self._clock.monotonic()
        if now >= cache.hook_cleanup_due:
            results = self._hooks.delete_completed(self._request(planned), {})
            delays = [_delay(result.error) for result in results if result.error is not None]
            cache.hook_cleanup_due = now + max(delays, default=0.0)
        return cache.hook_cleanup_due - now if now < cache.hook_cleanup_due else None

    def supersede(self, planned: Planned, cache: ExecutionCache, trigger: str = "") -> SyncRecord | None:
        """
        End a waiting operation when there is a newer commit, and return its record; what it wrote stays.

        While the Application is being deleted, every operation but the one of this trigger is ended.
        """
        operation = cache.operation
        commit = planned.target.commit.id
        if operation is None:
            return None
        if planned.app.is_deleted:
            newer = "the deletion of the Application" if operation.trigger != trigger else ""
        else:
            newer = commit[:12] if commit != operation.commit.id else ""
        if not newer:
            return None
        message = f"superseded by {newer} while waiting for {operation.waiting}"
        return self.finish(planned, cache, operation, message, superseded=True)

    def finish_ended(self, planned: Planned, cache: ExecutionCache) -> SyncRecord | None:
        """Save the record of an operation that has ended where the database did not take it before."""
        operation = cache.operation
        if operation is None or operation.ending is None:
            return None
        return self.finish(planned, cache, operation, operation.ending)

    def finish(
        self,
        planned: Planned,
        cache: ExecutionCache,
        operation: Operation,
        message: str = "",
        *,
        superseded: bool = False,
    ) -> SyncRecord | None:
        """
        Save the record of an operation, and end it and its approval.

        Until both are stored the operation remains, for ``finish_ended``: its hooks never run again. Successful hooks
        of a deletion stay in ``completed_hooks`` until their finalizer is removed. A successful operation without
        steps leaves no record, nor does a retry that failed as the attempt before.
        """
        record = None
        # before the record is saved: if that fails, finish_ended must not run the hooks a second time
        operation.ending = None if superseded else message
        # a retry that failed in the same way would fill the history with equal records
        adds_nothing = message and not superseded and _adds_nothing(operation, cache.retry)
        if (operation.steps or message) and not adds_nothing:
            took = round((self._clock.monotonic() - operation.began) * 1000)
            rollback = planned.inputs.state.rollback
            why = rollback.message if rollback is not None and operation.trigger == "rollback" else ""
            record = save_record(operation, planned.app, self._records, Ending(message, took, why, superseded))
        # after the record: an approval that outlives a crash here is one that its own sync may still use
        if operation.approved is not None:
            # by the digest of the reviewed plan: the current one has fewer steps, and so another digest
            self._records.end_approval(planned.app.key, operation.approved.digest)
        # the finalizer goes later, and until then nothing else says that they have run
        if operation.trigger in _HOOKS_OF_DELETION and not message:
            cache.completed_hooks = operation_to_status(operation)
        cache.operation = None
        return record

    def _begin(self, planned: Planned, trigger: str) -> Operation:
        inputs = planned.inputs
        choice = inputs.choice if trigger == "manual" else None
        return Operation(
            # unique over restarts: the audit finds intents and outcomes of one sync by it
            id=uuid.uuid4().hex[:16],
            commit=planned.target.commit,
            trigger=trigger,
            initiator=_requester(inputs) if trigger == "manual" else "automated",
            started=inputs.now,
            began=self._clock.monotonic(),
            plan=planned.plan,
            begun_with=planned.plan,
            has_hooks=choice is None,
        )

    def _request(
        self,
        planned: Planned,
        operation: Operation | None = None,
        store: StoreInventory = lambda entries, running: None,
    ) -> ApplyRequest:
        """Return the request to apply a plan; deletes of leftover hooks belong to no operation."""
        app = planned.app
        created = created_namespace(app)
        desired = planned.observation.desired
        # after the objects are deleted, nothing prunes any more
        keeps_none = operation is not None and operation.trigger == HookPhase.POST_DELETE.value

        def widen(entries: Mapping[ObjectRef, InventoryEntry]) -> None:
            # a namespace that several Applications create belongs to none, so none of them may prune it
            is_left = {ref for ref in entries if keeps_none or (ref in created and desired.get(ref) == created[ref])}
            kept = {
                # before the write: the operator may observe the object sooner than the status after it
                ref: entry._replace(permitted=planned.states.permitted(app, desired[ref])) if ref in desired else entry
                for ref, entry in entries.items()
                if ref not in is_left
            }
            store(kept, operation_to_status(operation))
            # after the status: where that cannot be written, nothing else is
            planned.states.begin(kept)

        def record(result: StepResult) -> None:
            declared = desired.get(result.change.ref)
            if declared is not None and _is_applied(result):
                planned.states.record(app, result.change.ref, declared, planned.target.origin)
            # a lost response says nothing: the object may be as before, or as the sync wrote it
            elif result.outcome is Outcome.FAILED and not result.is_unknown:
                planned.states.abandon(result.change.ref)
            if operation is not None and result.change.action is not Action.HOOK and _counts_late(result):
                operation.steps.update(record_steps([result]))

        return ApplyRequest(
            app,
            planned.plan,
            operation.commit if operation is not None else planned.target.commit,
            operation.id if operation is not None else "",
            planned.observation.versions,
            widen,
            lambda ref, manifest: health_of(ref, manifest, self._live, app),
            approver=operation.approver if operation is not None else "",
            trigger=operation.trigger if operation is not None else "",
            initiator=operation.initiator if operation is not None else "",
            on_result=record,
        )

    def _run_phases(self, run: _OperationRun) -> ApplyProgress:
        """Run phase after phase until one fails or has to wait; a failure runs the SyncFail hooks."""
        results: tuple[StepResult, ...] = ()
        hooks = run.operation.hooks
        steps = run.operation.steps
        for part in self._phases(run):
            results += part.results
            steps.update(record_steps(part.results))  # now, since a later phase may raise
            # a failure ends the operation although other steps wait: its retry plans both again
            if any(result.outcome is Outcome.FAILED for result in part.results) or (
                part.waiting and self._is_late(run)
            ):
                self._hooks.stop(run.request, hooks)
                if not run.planned.app.is_deleted:
                    late = self._hooks.run(run.request, hooks, HookPhase.SYNC_FAIL).results
                    steps.update(record_steps(late))
                    results += late
                return replace(part, results=results)
            if part.waiting:
                return replace(part, results=results)
        return ApplyProgress(results)

    def _phases(self, run: _OperationRun) -> Iterator[ApplyProgress]:
        """Yield the progress of each phase of a sync in order; a phase starts when the one before has ended."""
        request = run.request
        hooks = run.operation.hooks
        phase = _HOOKS_OF_DELETION.get(run.operation.trigger)
        # a late failure ends the operation like one that was answered at once
        yield ApplyProgress(run.answered)
        if phase is not None:
            yield self._hooks.run(request, hooks, phase)
            # a refusal is not waited for, or the deletion would never end
            undeleted = [
                done for done in self._hooks.delete_completed(request, hooks) if isinstance(done.error, TransientError)
            ]
            first = next(iter(undeleted), None)
            yield ApplyProgress(waiting=f"{first.change.ref} to be deleted ({first.message})" if first else "")
            return
        # before the hooks: these may be rejected while what they need is absent
        yield self._create_hook_needs(run)
        yield self._hooks.run(request, hooks, HookPhase.PRE_SYNC)
        yield self._apply(run)
        yield self._hooks.run(request, hooks, HookPhase.SYNC)
        # without PostSync hooks the health of a commit is judged after the sync, which ends here
        if any(is_hook(change) and change.stage == POST_SYNC for change in request.plan.changes):
            yield ApplyProgress(waiting=_unhealthy(run.planned, self._live))
        yield self._hooks.run(request, hooks, HookPhase.POST_SYNC)

    def _create_hook_needs(self, run: _OperationRun) -> ApplyProgress:
        """Create what the PreSync hooks need; the next reconcile plans the rest with it."""
        plan = run.planned.plan
        needs = tuple(change for change in plan.changes if is_needed_by_hooks(change))
        done = self._applier.execute(replace(run.request, plan=replace(plan, changes=needs)))
        waiting = "what the PreSync hooks need to be observed" if needs else ""
        return replace(done, waiting=done.waiting or waiting)

    def _apply(self, run: _OperationRun) -> ApplyProgress:
        plan = run.planned.plan
        peers = self._peers_behind(run)
        # hooks are steps of their own phases, although they are in the same plan
        wanted = (change for change in plan.changes if not is_hook(change) and change.ref not in run.postponed)
        due = _due(tuple(wanted), is_waiting_for_peers=bool(peers))
        plans_again = run.operation.conflicts < CONFLICTS
        request = replace(run.request, plan=replace(plan, changes=due), plans_again=plans_again)
        done = self._applier.execute(request)
        run.operation.conflicts += done.is_outdated
        if not peers:
            return done
        more = f" and {len(peers) - 1} more" if len(peers) > 1 else ""
        commit = self._expected_commit(run)[:12]
        waiting = (
            f"{peers[0]}{more} to declare objects at commit {commit}, since they may take over what is pruned;"
            " fix or suspend one that fails"
        )
        return replace(done, waiting=done.waiting or waiting, peers=peers)

    def _peers_behind(self, run: _OperationRun) -> tuple[str, ...]:
        """
        Return the Applications that a prune waits for, since they may have taken over an object that left this one.

        They poll Git at once. The prune waits for as long as it takes: a moved object must never be deleted.
        """
        app = run.planned.app
        branch = branch_of(app)
        pruned = [change.ref for change in run.planned.plan.writes if change.action is Action.PRUNE]
        if not pruned or branch is None:
            return ()
        # a generated Application disappears because its set or its parent no longer declares it, which a commit may
        # have caused
        if app.is_deleted and not (app.owner or app.set):
            return ()  # a user deleted it, and not a commit that may declare its objects elsewhere
        return self._declarations.applications_behind(app.key, branch, self._expected_commit(run), pruned)

    def _expected_commit(self, run: _OperationRun) -> str:
        """Return the commit at which other Applications have to declare their objects before one is pruned."""
        app = run.planned.app
        branch = branch_of(app)
        if app.is_deleted and branch is not None:
            # it does not follow Git any more; the commit that deleted it was polled before, so it is known
            return self._declarations.newest(branch)
        return run.planned.target.newest

    def _is_late(self, run: _OperationRun) -> bool:
        return self._remaining(run) <= 0

    def _remaining(self, run: _OperationRun) -> float:
        """Return the seconds until the deadline of the operation."""
        return run.operation.began + run.planned.app.sync.health_timeout - self._clock.monotonic()

    def _complete_or_requeue(self, run: _OperationRun, cache: ExecutionCache, done: ApplyProgress) -> OperationResult:
        """Complete the operation, or schedule its next reconcile."""
        now = self._clock.monotonic()
        operation = run.operation
        app = run.planned.app
        failed = [result for result in done.results if result.outcome is Outcome.FAILED]
        # only what self-heal corrected counts as healed; a commit that changes an object heals nothing
        healed = 0
        if operation.trigger == "drift":
            corrected = [result.change for result in done.results if result.outcome is Outcome.SUCCEEDED]
            cache.self_heals.record((change for change in corrected if not is_hook(change)), now)
            healed = len(corrected)
        if done.waiting and not failed and not self._is_late(run):
            operation.waiting = done.waiting
            is_new = now - operation.began < _RESYNC_PERIOD
            delay = _PEER_POLL if done.peers and is_new else _RESYNC_PERIOD
            if done.is_outdated:
                delay = conflict_delay(operation.conflicts)
            elif done.is_polled:
                delay = min(delay, _DEFINITION_POLL)
            # the deadline itself needs a reconcile, which fails the operation
            delay = min(delay, max(self._remaining(run), 0.0))
            return OperationResult(operation, False, healed=healed, peers=done.peers, requeue_after=delay)
        message = _failure_message(failed, len(operation.steps)) if failed else ""
        if done.waiting and not failed:
            message = f"waited {app.sync.health_timeout:.0f} s for {done.waiting}"
        # replaced as a whole: an object that has succeeded now must not keep its old message
        cache.failed = {result.change.ref: result for result in failed}
        delays = [_HOOK_DELETE_RETRY] if operation.hooks else []  # then it is checked whether they were deleted
        if message:
            previous = cache.retry
            cache.retry = next_retry(previous, run.planned.retry_key, app.sync, failed, now)
            cache.retry.message = message
            cache.retry.is_repeated = (previous.input, previous.message) == (cache.retry.input, message)
            delays.append(cache.retry.retry_at - now)
        else:
            cache.retry = RetryState()
        return OperationResult(operation, True, message, healed, done.peers, min(delays, default=None))


def _requester(inputs: ReconcileInput) -> str:
    """Return who requested a sync: by an annotation of the whole Application it is not known."""
    return inputs.requested_by or (inputs.choice.by if inputs.choice is not None else "") or "manual"


def _failure_message(failed: Sequence[StepResult], steps: int) -> str:
    """Return why an operation failed: the reason of the first object, how many failed, and how many were not tried."""
    # an object that was not tried has no cause of its own
    tried = [result for result in failed if not result.is_blocked] or failed
    reason = tried[0].message
    if not reason.startswith(str(tried[0].change.ref)):
        reason = f"{tried[0].change.ref}: {reason}"
    if len(tried) > 1:
        reason = f"{len(tried)} of {steps} objects failed; the first: {reason}"
    untried = len(failed) - len(tried)
    return f"{reason}; {untried} not tried" if untried else reason


def _counts_late(result: StepResult) -> bool:
    """
    Whether a write that was answered late is a step of its sync.

    A hook is found by its annotation; the API server's refusal of one is not found anywhere, so that it counts.
    """
    if result.is_outdated:  # the next plan has the step again, where it is still needed
        return False
    if result.change.action is Action.HOOK:
        return result.outcome is Outcome.FAILED and not isinstance(result.error, TransientError)
    return result.change.reason != HOOK_DELETION


def _is_applied(result: StepResult) -> bool:
    """Whether an object is as Git declares it now: one that is replaced may still be on its way out."""
    is_leaving = bool(metadata_of(result.live or {}).get("deletionTimestamp"))
    return result.outcome is Outcome.SUCCEEDED and result.change.action in _APPLIES and not is_leaving


def _adds_nothing(operation: Operation, retry: RetryState) -> bool:
    """Whether an operation only repeated the failure of the last attempt; the audit has its writes."""
    is_repeated = operation.trigger in ("retry", "drift") and retry.is_repeated
    return is_repeated and all(step.outcome is Outcome.FAILED for step in operation.steps.values())


def _delay(error: GitsyncError) -> float:
    """Return the seconds until a failed delete is retried."""
    return error.retry_after or _HOOK_DELETE_RETRY if isinstance(error, TransientError) else _HOOK_DELETE_REFUSED_RETRY


def _due(changes: tuple[Change, ...], *, is_waiting_for_peers: bool) -> tuple[Change, ...]:
    """Return the steps that may run now; a creation waits with the prune that makes room for it."""
    late = {change.ref for change in changes if not _is_due(change, is_waiting_for_peers)}
    return tuple(change for change in changes if change.ref not in late and change.waits_for not in late)


def _is_due(change: Change, is_waiting_for_peers: bool) -> bool:
    """Whether the step may run now."""
    return change.action is not Action.PRUNE or not is_waiting_for_peers


def _unhealthy(planned: Planned, live: LiveCache) -> str:
    """Return what the PostSync hooks wait for: the first object that is not healthy."""
    changes = planned.plan.changes
    observed = planned.observation.live
    for change in changes:
        if change.desired is not None and change.unobserved:
            return f"{change.ref} to be observed ({change.unobserved})"
        # what its annotation leaves out, such as the tests of a Helm chart, nothing creates
        is_left_out = change.live is None and change.options.reconcile is Reconcile.NEVER
        if change.desired is not None and not is_hook(change) and not is_left_out and change.action is Action.NOTHING:
            status = change.finished or health_of(change.ref, observed.get(change.ref), live, planned.app)
            if status.health in (Health.PROGRESSING, Health.DEGRADED, Health.MISSING):
                return f"{change.ref} to be healthy, which is {status.health.value}"
    if any(change.is_write and not is_hook(change) for change in changes):
        return "the applied objects to be observed"
    return ""


def conflict_delay(conflicts: int) -> float:
    """Return the seconds after which a step is planned again, by when the watch shows the newer object."""
    return float(_CONFLICT_DELAY * 2 ** (conflicts - 1))


_CONFLICT_DELAY = 0.05


def next_retry(
    previous: RetryState, key: tuple[str, int, str], policy: SyncPolicy, failed: Sequence[StepResult], now: float
) -> RetryState:
    """
    Count a failure of this input and return the state with the time of the next retry.

    The delay follows the Application's retry policy; beyond its limit the longest delay is used indefinitely, since
    the cluster may change. Transient errors alone are retried soon, whatever the limit.
    """
    failures = (previous.failures if previous.input == key else 0) + 1
    backoff = policy.retry.backoff
    # min: the factor to a large power overflows a float; the result is limited to the longest delay anyway
    delay = min(backoff.initial * backoff.factor ** min(failures - 1, 64), backoff.max)
    # beyond the limit: not more often than Git is polled, and for ever, since a person may repair the cluster
    if failures > policy.retry.limit:
        delay = max(backoff.max, policy.interval)
    tried = [result for result in failed if not result.is_blocked]
    transient = [result.error for result in tried if isinstance(result.error, TransientError)]
    if tried and len(transient) == len(tried):
        delay = transient_delay(delay, transient)
    return RetryState(key, failures, now + delay)


def transient_delay(delay: float, errors: Iterable[TransientError]) -> float:
    """Return the seconds until what an outage stopped is retried: the delay, or what a server asked for."""
    asked = max((error.retry_after or 0.0 for error in errors), default=0.0)
    return max(min(delay, OUTAGE_PAUSE), asked)
