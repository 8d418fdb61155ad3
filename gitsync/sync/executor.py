"""Execution: carry an operation as far as it goes now, and account for it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gitsync.apply.execute import Applier
from gitsync.apply.hooks import Hooks, is_hook
from gitsync.apply.types import Job, Result, Round
from gitsync.errors import GitsyncError, TransientError
from gitsync.objects.change import Action, Change, Plan
from gitsync.objects.health import Health
from gitsync.objects.inventory import Held
from gitsync.objects.manifest import metadata_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import HookPhase
from gitsync.plan.order import POST_SYNC
from gitsync.ports import Clock, Live, Records
from gitsync.sync.cache import Memory, Operation
from gitsync.sync.history import finish, steps_of
from gitsync.sync.observe import created_namespace, health_of
from gitsync.sync.operation import kept, resumed
from gitsync.sync.reconcile import Stage, Turn
from gitsync.sync.retry import count_failure, count_success
from gitsync.sync.state_store import State
from gitsync.sync.status.writer import Statuses

_SAFETY = 10.0
"""Watch events take a waiting sync up again; should one be missed, so does this many seconds."""
_AGAIN, _REFUSED = 5.0, 600.0
"""So long a delete of a hook rests that was not taken, and one that was refused: only a person can change that."""
_HOOKS_OF_DELETION = {phase.value: phase for phase in HookPhase if phase.is_of_deletion}
"""The triggers of operations that run hooks only, because the application is being deleted."""
_PEERS_TIME, _PEERS_LOOK = 10.0, 0.2
"""So long a prune waits for other applications of the repository, looking so often."""


class Execution:
    """
    Run one operation of an application at a time: hooks before, the plan's batches, hooks with it and after it.

    What waits holds no worker: the next look goes on where this one stopped. ``nudge`` is called with applications
    that should look at Git now; it is set once, before the start.
    """

    def __init__(
        self,
        applier: Applier,
        hooks: Hooks,
        statuses: Statuses,
        records: Records,
        state: State,
        live: Live,
        clock: Clock,
    ) -> None:
        self._applier = applier
        self._hooks = hooks
        self._statuses = statuses
        self._records = records
        self._state = state
        self._live = live
        self._clock = clock
        self.nudge: Callable[[Sequence[str]], None] = lambda keys: None

    def run(self, turn: Turn, memory: Memory, trigger: str) -> bool:
        """Begin an operation, or go on with the one under way, for the turn's plan; tell whether it has ended well."""
        turn.stage = Stage.APPLY
        plan = turn.plan
        assert plan is not None
        assert turn.verdict is not None
        operation = memory.operation
        if operation is None:
            operation = memory.operation = self._begin(turn, memory, plan, trigger)
        operation.plan = plan
        if turn.verdict.approver:
            operation.approver, operation.approved = turn.verdict.approver, plan
        memory.has_open_intents = True  # also when the audit fails on the way
        hold = self._holding(turn, operation)
        job = self._job(turn, plan, operation.commit, hold, operation.id, operation.approver)
        done = self._go_on(turn, operation, job)
        operation.steps.update(steps_of(done.results))
        memory.has_open_intents = bool(operation.hooks) or any(result.is_unknown for result in done.results)
        return self._account(turn, memory, operation, done)

    def resume(self, turn: Turn, memory: Memory) -> None:
        """Take up, at the first look after a start, the operation that a crash interrupted."""
        assert turn.plan is not None
        if not memory.is_resumed and memory.operation is None and turn.operation:
            memory.operation = resumed(turn.operation, turn.plan, turn.now, self._clock.monotonic())
        memory.is_resumed = True

    def sweep(self, turn: Turn, memory: Memory) -> None:
        """Delete hooks that are left over from syncs that ended; what the API server does not take is tried again."""
        plan = turn.plan
        assert plan is not None
        if memory.operation is not None or not any(is_hook(change) for change in plan.changes):
            return
        now, had_open_intents = self._clock.monotonic(), memory.has_open_intents
        if now >= memory.sweep_due:
            memory.has_open_intents = True  # also when the audit fails on the way
            job = self._job(turn, plan, turn.goal or Commit(turn.applied), lambda entries: None)
            results = self._hooks.sweep(job, {})
            memory.has_open_intents = had_open_intents or any(result.is_unknown for result in results)
            delays = [_delay(result.error) for result in results if result.error is not None]
            memory.sweep_due = now + max(delays, default=0.0)
        if now < memory.sweep_due:
            turn.wake_in(memory.sweep_due - now)

    def supersede(self, turn: Turn, memory: Memory, trigger: str = "") -> None:
        """
        End an operation that still waits when there is a newer commit: what it did stays, the new one goes on.

        Where the application is being deleted, all but the operation of this very trigger are ended.
        """
        operation = memory.operation
        if operation is None:
            return
        if turn.app.is_deleted:
            newer = "the deletion of the Application" if operation.trigger != trigger else ""
        else:
            newer = turn.goal.id[:12] if turn.goal is not None and turn.goal.id != operation.commit.id else ""
        if newer:
            message = f"superseded by {newer} while it waited for {operation.waiting}"
            self.finish(turn, memory, operation, message, superseded=True)

    def finish(
        self, turn: Turn, memory: Memory, operation: Operation, message: str = "", *, superseded: bool = False
    ) -> None:
        """End an operation, its approval too, and keep its record; one that did nothing and ended well leaves none."""
        if operation.approved is not None:
            self._records.end_approval(turn.app.key, operation.approved.digest)
        memory.operation = None
        if operation.steps or message:
            took = round((self._clock.monotonic() - operation.began) * 1000)
            why = turn.pin.message if turn.pin is not None and operation.trigger == "rollback" else ""
            turn.record = finish(operation, turn.app, self._records, message, took, why=why, superseded=superseded)

    def _begin(self, turn: Turn, memory: Memory, plan: Plan, trigger: str) -> Operation:
        return Operation(
            id=uuid.uuid4().hex[:16],
            commit=turn.goal or Commit(turn.applied),
            trigger=trigger,
            initiator=(turn.requested_by or "manual") if trigger == "manual" else "automated",
            started=turn.now,
            began=self._clock.monotonic(),
            plan=plan,
        )

    def _holding(self, turn: Turn, operation: Operation) -> Callable[[Mapping[ObjectRef, Held]], None]:
        """Return how objects are taken into the inventory before an operation writes them."""
        assert turn.observation is not None
        created, desired = created_namespace(turn.app), turn.observation.desired

        def is_left(ref: ObjectRef) -> bool:
            is_only_created = ref in created and desired.get(ref) == created[ref]
            return is_only_created or operation.trigger == HookPhase.POST_DELETE.value  # then nobody prunes any more

        def hold(entries: Mapping[ObjectRef, Held]) -> None:
            wider = turn.inventory.widened({ref: held for ref, held in entries.items() if not is_left(ref)})
            under_way = kept(operation)
            if wider.entries.keys() != turn.inventory.entries.keys() or under_way != turn.status_before.get(
                "operation", {}
            ):
                status = {**turn.status_before, "phase": "Executing", "inventory": (), "packedInventory": ""}
                status |= {"operation": under_way, **wider.to_status()}
                turn.manifest = self._statuses.write(turn.manifest, {k: v for k, v in status.items() if v})
            turn.inventory = wider

        return hold

    def _job(
        self,
        turn: Turn,
        plan: Plan,
        commit: Commit,
        hold: Callable[[Mapping[ObjectRef, Held]], None],
        sync: str = "",
        approver: str = "",
    ) -> Job:
        assert turn.observation is not None
        return Job(
            turn.app,
            plan,
            commit,
            sync,
            turn.observation.versions,
            hold,
            lambda ref, manifest: health_of(ref, manifest, self._live, turn.app.health_checks),
            approver=approver,
        )

    def _go_on(self, turn: Turn, operation: Operation, job: Job) -> Round:
        """Run part after part until one fails or has to wait; a failure runs the hooks for it."""
        results: tuple[Result, ...] = ()
        for part in self._parts(turn, operation, job):
            results += part.results
            if any(result.outcome is Outcome.FAILED for result in part.results) or self._is_late(turn, operation):
                self._hooks.stop(job, operation.hooks)
                if not turn.app.is_deleted:
                    results += self._hooks.run(job, operation.hooks, HookPhase.SYNC_FAIL).results
                return Round(results, part.waiting)
            if part.waiting:
                return Round(results, part.waiting)
        return Round(results)

    def _parts(self, turn: Turn, operation: Operation, job: Job) -> Iterator[Round]:
        """Yield what each part of a sync came to, in order; each is begun only when the one before has ended."""
        phase = _HOOKS_OF_DELETION.get(operation.trigger)
        if phase is not None:
            yield self._hooks.run(job, operation.hooks, phase)
            left = [done for done in self._hooks.sweep(job, operation.hooks) if isinstance(done.error, TransientError)]
            yield Round(waiting=f"{left[0].change.ref} to be deleted ({left[0].message})" if left else "")
            return
        yield self._hooks.run(job, operation.hooks, HookPhase.PRE_SYNC)
        yield self._apply(turn, operation, job)
        yield self._hooks.run(job, operation.hooks, HookPhase.SYNC)
        if any(is_hook(change) and change.stage == POST_SYNC for change in job.plan.changes):
            yield Round(waiting=_unhealthy(turn, job, self._live))
        yield self._hooks.run(job, operation.hooks, HookPhase.POST_SYNC)

    def _apply(self, turn: Turn, operation: Operation, job: Job) -> Round:
        lagging = self._wait_for_peers(turn, operation)
        due = tuple(change for change in job.plan.changes if not is_hook(change) and _is_due(change, bool(lagging)))
        done = self._applier.execute(replace(job, plan=replace(job.plan, changes=due)))
        if lagging and not done.waiting:
            turn.wake_in(_PEERS_LOOK)
            return replace(done, waiting=lagging)
        return done

    def _wait_for_peers(self, turn: Turn, operation: Operation) -> str:
        """
        Return what a prune waits for: applications that may have taken over what left this one.

        They are asked to look at Git at once; one that does not in time is waited for no longer.
        """
        is_pruning = any(change.action is Action.PRUNE for change in operation.plan.writes)
        if turn.goal is None or turn.app.is_deleted or not is_pruning:
            return ""
        lagging = self._state.lagging(turn.app.key, turn.app.source.repo_url, turn.goal.id)
        if not lagging or self._clock.monotonic() - operation.began > _PEERS_TIME:
            return ""
        self.nudge(lagging)
        return f"{lagging[0]} to look at commit {turn.goal.id[:12]}, since it may declare what would be pruned"

    def _is_late(self, turn: Turn, operation: Operation) -> bool:
        return self._clock.monotonic() - operation.began >= turn.app.sync.health_timeout

    def _account(self, turn: Turn, memory: Memory, operation: Operation, done: Round) -> bool:
        """Turn what was done into the operation's end, or its next look; tell whether it has ended well."""
        now = self._clock.monotonic()
        failed = [result for result in done.results if result.outcome is Outcome.FAILED]
        if operation.trigger == "drift":
            healed = sum(1 for result in done.results if result.outcome is Outcome.SUCCEEDED)
            turn.corrected += healed
            if healed:
                memory.heals.append(now)
        if done.waiting and not failed and not self._is_late(turn, operation):
            operation.waiting = done.waiting
            turn.wake_in(_SAFETY)
            return False
        message = f"{len(failed)} of {len(operation.steps)} objects failed" if failed else ""
        if done.waiting and not failed:
            message = f"waited {turn.app.sync.health_timeout:.0f} s for {done.waiting}"
        memory.failed = {result.change.ref: result for result in failed}
        if message:
            turn.wake_in(count_failure(memory, turn, failed, now))
            memory.attempts.message = message
        else:
            count_success(memory, turn)
            turn.settle(operation.commit.id)
        turn.message = message
        self.finish(turn, memory, operation, message)
        if operation.hooks:
            turn.wake_in(_AGAIN)  # then it is seen whether their deletes were taken
        return not message


def _delay(error: GitsyncError) -> float:
    """Return how many seconds a delete that was not taken rests before it is tried again."""
    return error.retry_after or _AGAIN if isinstance(error, TransientError) else _REFUSED


def is_terminating(change: Change) -> bool:
    """Whether the step deletes what is on its way out already."""
    return change.action is Action.PRUNE and bool(metadata_of(change.live or {}).get("deletionTimestamp"))


def _is_due(change: Change, is_waiting_for_peers: bool) -> bool:
    """Whether the step may be carried out now."""
    return not is_terminating(change) and not (is_waiting_for_peers and change.action is Action.PRUNE)


def _unhealthy(turn: Turn, job: Job, live: Live) -> str:
    """Return what the hooks after a sync wait for: the first object that is not healthy."""
    assert turn.observation is not None
    for change in job.plan.changes:
        if change.desired is not None and not is_hook(change) and change.action is Action.NOTHING:
            status = health_of(change.ref, turn.observation.live.get(change.ref), live, turn.app.health_checks)
            if status.health in (Health.PROGRESSING, Health.DEGRADED, Health.MISSING):
                return f"{change.ref} to be healthy, which is {status.health.value}"
    if any(change.is_write and not is_hook(change) for change in job.plan.changes):
        return "the applied objects to be seen again"
    return ""
