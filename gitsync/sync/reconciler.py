"""Converge: observe → plan → gate → apply → health, for any desired state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from gitsync.apply.hooks import is_hook
from gitsync.errors import InvalidInput
from gitsync.gate.cel_rules import ManifestRule
from gitsync.gate.decide import decide, decide_deletion
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import policy_for
from gitsync.objects.change import Action, Decision, Hold, Plan, Review, Verdict
from gitsync.objects.inventory import Held, Inventory
from gitsync.objects.keys import GROUP, HOOK_RUN, VERSION
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import HookPhase, options_of
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.ports import Clock, Cluster, Live, Records
from gitsync.sync.advice import Advising
from gitsync.sync.cache import Memory
from gitsync.sync.dependencies import waits_for
from gitsync.sync.executor import Execution, is_terminating
from gitsync.sync.history import describe_drift
from gitsync.sync.observe import Observation, confirmed, created_namespace, health_of, observe
from gitsync.sync.operation import kept
from gitsync.sync.planner import Planner
from gitsync.sync.reconcile import Stage, Turn
from gitsync.sync.retry import count_success
from gitsync.sync.state_store import State
from gitsync.sync.validation import Place, refuse_misfits, violations_of

_REVIEW_POLL = 5.0
"""A review may be given by another process, straight into the database, and windows open by themselves."""
_PHASES = {Hold.REJECTION: "Rejected", Hold.APPROVAL: "AwaitingApproval", Hold.WINDOW: "Pending"}
_HEALS, _HEAL_PERIOD = 5, 60.0
"""So many heals in so many seconds are a fight with another controller, and pause healing."""


class Converger:
    """Bring the cluster from what lives to what is declared, as far as policy and the moment allow."""

    def __init__(
        self,
        cluster: Cluster,
        live: Live,
        records: Records,
        clock: Clock,
        planner: Planner,
        advising: Advising,
        execution: Execution,
        policies: Sequence[Policy],
        rules: Sequence[ManifestRule],
        state: State,
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._records = records
        self._clock = clock
        self._planner = planner
        self._advising = advising
        self._execution = execution
        self._policies = policies
        self._rules = rules
        self._state = state

    def converge(self, turn: Turn, memory: Memory, desired: Mapping[ObjectRef, Manifest], place: Place) -> None:
        """Look, plan, and carry out what may be carried out now; the turn holds all that was found."""
        self._observe(turn, desired)
        self._check(turn, memory, place)
        self._planner.plan(turn, memory)
        turn.drift_seen = _drift(turn)
        self._execution.resume(turn, memory)
        self._execution.supersede(turn, memory)
        self._settle_intents(turn, memory)
        self._refuse(turn, memory)
        trigger = self._trigger(turn, memory)
        is_heard = self._advising.is_heard(turn, memory)
        if trigger and is_heard and self._is_allowed(turn, memory):
            self._execution.run(turn, memory, trigger)
            self._observe(turn, desired)
            self._planner.plan(turn, memory)
        else:
            self._execution.sweep(turn, memory)
        self._conclude(turn, memory)

    def clear(self, turn: Turn, memory: Memory) -> bool:
        """
        Delete what an application holds, because it is being deleted itself, and tell whether that is over.

        Only what the application wants approved still waits, see ``decide_deletion``.
        """
        self._observe(turn, {})
        self._planner.plan(turn, memory)
        self._execution.resume(turn, memory)
        self._execution.supersede(turn, memory, "delete")
        self._settle_intents(turn, memory)
        plan = turn.plan
        assert plan is not None
        turn.verdict = decide_deletion(plan, turn.app, self._review(turn, memory, plan))
        is_allowed = turn.verdict.decision is Decision.ALLOWED
        if is_allowed and not all(is_terminating(change) for change in plan.writes):
            self._execution.run(turn, memory, "delete")
            self._observe(turn, {})
            self._planner.plan(turn, memory)
        self._conclude(turn, memory)
        return memory.operation is None and turn.plan is not None and not turn.plan.writes

    def run_hooks(self, turn: Turn, memory: Memory, hooks: Mapping[ObjectRef, Manifest], phase: HookPhase) -> bool:
        """
        Run hooks because the application is being deleted, and tell whether all of them have ended well.

        One that fails is tried again with the delays of the application's retry policy.
        """
        self._observe(turn, hooks)
        self._planner.plan(turn, memory)
        self._execution.resume(turn, memory)
        self._execution.supersede(turn, memory, phase.value)
        self._settle_intents(turn, memory)
        assert turn.plan is not None
        violations = violations_of(turn.app, turn.plan, self._policies, self._rules)
        turn.verdict = Verdict(Decision.REFUSED if violations else Decision.ALLOWED, violations)
        is_due = not violations and not self._rests(turn, memory)
        is_over = is_due and self._execution.run(turn, memory, phase.value)
        self._observe(turn, hooks)
        self._conclude(turn, memory)
        return is_over

    def _observe(self, turn: Turn, desired: Mapping[ObjectRef, Manifest]) -> None:
        turn.stage = Stage.OBSERVE
        observation = confirmed(
            observe(desired, turn.inventory, self._cluster, self._live), turn.inventory, self._cluster
        )
        turn.observation = observation
        created = created_namespace(turn.app)
        self._state.declare(turn.app.key, frozenset(ref for ref in desired if created.get(ref) != desired[ref]))
        turn.inventory = _held(turn, observation)
        turn.health = {
            ref: health_of(ref, observation.live.get(ref), self._live, turn.app.health_checks)
            for ref, manifest in desired.items()
            if not options_of(manifest).hooks
        }

    def _check(self, turn: Turn, memory: Memory, place: Place) -> None:
        """Refuse a revision with an object that does not fit its schema, before anything of it is written."""
        observation = turn.observation
        assert observation is not None
        if memory.checked is observation.desired and memory.checked_by is observation.schemas:
            return
        turn.stage = Stage.RENDER
        try:
            refuse_misfits(observation, place)
        except InvalidInput:
            turn.observation = None
            raise
        memory.checked, memory.checked_by = observation.desired, observation.schemas

    def _refuse(self, turn: Turn, memory: Memory) -> None:
        """Judge what is declared by policy, also where no sync is due: a hook is declared and need not be written."""
        assert turn.plan is not None
        assert turn.observation is not None
        judged = (turn.observation.desired, turn.app)
        if memory.judged is None or memory.judged[0] is not judged[0] or memory.judged[1] != judged[1]:
            memory.violations = violations_of(turn.app, turn.plan, self._policies, self._rules)
            memory.judged = judged
        if memory.violations and memory.operation is None:
            turn.verdict = Verdict(Decision.REFUSED, memory.violations)

    def _trigger(self, turn: Turn, memory: Memory) -> str:
        """Return why to sync now, empty when there is nothing to do or the application does not want it."""
        plan, app = turn.plan, turn.app
        assert plan is not None
        if memory.operation is not None:
            return memory.operation.trigger
        if all(is_terminating(change) for change in plan.writes):
            return ""
        if turn.is_requested:
            return "manual"
        if turn.pin is not None and turn.pin.commit and not turn.is_applied:
            return "rollback"
        if not app.sync.automated or (turn.pin is not None and not turn.pin.commit):
            return ""
        if not turn.is_applied:
            return "retry" if memory.attempts.failures else "commit"
        return "drift" if app.sync.self_heal else ""

    def _is_allowed(self, turn: Turn, memory: Memory) -> bool:
        """Ask the gate, the retry policy and the fight breaker."""
        plan = turn.plan
        assert plan is not None
        now = self._clock.monotonic()
        if self._rests(turn, memory):
            return False
        if not turn.is_applied and memory.operation is None:
            turn.message = waits_for(turn.app, plan.revision, self._application)
            if turn.message:
                return False
        if turn.is_applied and len(memory.heals) >= _HEALS:
            pause = memory.heals[-_HEALS] + _HEAL_PERIOD - now
            if pause > 0:
                turn.message = f"healed {_HEALS} times within a minute: another controller writes the same fields"
                turn.wake_in(pause)
                return False
        operation = memory.operation
        if operation is not None and operation.approver and _goes_on(operation.approved, plan):
            turn.verdict = Verdict(Decision.ALLOWED)
            return True
        turn.verdict = decide(
            plan,
            turn.app,
            policy_for(self._policies, turn.app),
            self._review(turn, memory, plan),
            turn.now,
            manual=turn.is_requested,
            violations=memory.violations,
        )
        return turn.verdict.decision is Decision.ALLOWED

    def _review(self, turn: Turn, memory: Memory, plan: Plan) -> Review | None:
        sync = memory.operation.id if memory.operation is not None else ""
        return self._records.review(turn.app.key, plan.digest, turn.now, sync=sync)

    def _rests(self, turn: Turn, memory: Memory) -> bool:
        """Whether what failed is not to be tried again yet."""
        due = memory.attempts.due if memory.attempts.of == turn.input else 0.0
        left = due - self._clock.monotonic()
        if left > 0:
            turn.wake_in(left)
        return left > 0

    def _application(self, key: str) -> Manifest | None:
        resource = self._cluster.resource(GROUP, VERSION, "Application")
        namespace, _, name = key.partition("/")
        return self._live.get(resource, namespace, name) if resource is not None else None

    def _settle_intents(self, turn: Turn, memory: Memory) -> None:
        """
        Give an outcome to writes that have none: after a crash, or when the answer never came.

        The plan tells: an apply that it would do again was not done, any other was. A delete was done when the object
        is gone or on its way out, a hook when it bears the mark of its sync.
        """
        if not memory.has_open_intents:
            return
        assert turn.plan is not None
        open_intents = [record for record in self._records.unfinished() if record.application == turn.app.key]
        self._records.audit(_settled(intent, _took_effect(intent, turn), turn.now) for intent in open_intents)
        memory.has_open_intents = False

    def _conclude(self, turn: Turn, memory: Memory) -> None:
        """Say in one word, and a sentence, where the application stands."""
        plan, operation = turn.plan, memory.operation
        assert plan is not None
        turn.operation = kept(operation)
        current = {change.ref for change in plan.writes}
        turn.problems = {ref: result.message for ref, result in memory.failed.items() if ref in current}
        turn.drift_objects = len(plan.writes) if turn.is_applied and not turn.app.is_deleted else 0
        is_refused = turn.verdict is not None and turn.verdict.decision is Decision.REFUSED
        if not plan.writes and operation is None and not is_refused:
            turn.phase = "Synced"
            turn.settle(plan.revision)
            self._keep_failed_hooks(turn, memory)
        elif operation is not None and (turn.verdict is None or turn.verdict.decision is Decision.ALLOWED):
            turn.phase, turn.reason = "Executing", "Waiting"
            turn.message = f"waits for {operation.waiting}"
        elif turn.verdict is not None and turn.verdict.decision is Decision.HELD:
            turn.phase, turn.reason = _PHASES[turn.verdict.holds[0]], turn.verdict.holds[0].value
            turn.message = "; ".join(turn.verdict.reasons)
            turn.wake_in(_REVIEW_POLL)
        elif is_refused and turn.verdict is not None:
            turn.phase, turn.reason = "Failed", "Refused"
            turn.message = "; ".join(turn.verdict.reasons)
        elif turn.problems:
            turn.phase, turn.reason = "Failed", "ApplyFailed"
        elif memory.attempts.message and memory.attempts.of == turn.input:
            turn.phase, turn.reason = "Failed", "SyncFailed"
            turn.message = memory.attempts.message
        elif all(is_terminating(change) for change in plan.writes):
            turn.phase, turn.reason = "Executing", "Deleting"
            turn.message = f"waits for {plan.writes[0].ref} to be gone"
        elif turn.drift_objects:
            turn.phase, turn.reason = "Drifted", "Drifted"
            count = turn.drift_objects
            differ = f"{count} objects differ" if count > 1 else "1 object differs"
            turn.message = turn.message or f"{differ} from Git: {plan.writes[0].ref}"
        else:
            turn.phase, turn.reason = "Pending", "OutOfSync"
            turn.message = turn.message or f"{len(plan.writes)} steps wait for a sync"

    def _keep_failed_hooks(self, turn: Turn, memory: Memory) -> None:
        """Everything is applied: all that can still be wrong is a hook that failed after it, for this very input."""
        failed = {ref: result for ref, result in memory.failed.items() if is_hook(result.change)}
        if failed and memory.attempts.of == turn.input:
            turn.phase, turn.reason = "Failed", "HookFailed"
            turn.problems = {ref: result.message for ref, result in failed.items()}
        else:
            count_success(memory, turn)
            memory.failed.clear()


def _held(turn: Turn, observation: Observation) -> Inventory:
    """
    Return the inventory as far as this observation, a complete one, narrows or completes it.

    Dropped are objects that are neither declared nor live, and those that now belong to another application.
    """
    entries: dict[ObjectRef, Held] = {}
    for ref in observation.desired.keys() | turn.inventory.entries.keys():
        live = observation.live.get(ref)
        if ref in observation.desired and live is not None and is_owned(turn.app, live):
            entries[ref] = Held(observation.versions[ref], uid_of(live))
        elif ref not in turn.inventory:
            continue
        elif ref in observation.desired or (live is not None and owner_of(live) in ("", turn.app.key)):
            entries[ref] = turn.inventory.entries[ref]
    return Inventory(entries)


def _took_effect(intent: AuditRecord, turn: Turn) -> bool:
    assert turn.observation is not None
    assert turn.plan is not None
    ref = ObjectRef.from_path(intent.resource)
    live = turn.observation.live.get(ref)
    if intent.action == Action.PRUNE.value:
        return live is None or bool(metadata_of(live).get("deletionTimestamp"))
    if intent.action == Action.HOOK.value:
        return live is not None and annotations_of(live).get(HOOK_RUN, "").startswith(intent.sync)
    return all(change.ref != ref for change in turn.plan.writes)


def _settled(intent: AuditRecord, is_done: bool, now: datetime) -> AuditRecord:
    return replace(
        intent,
        outcome=Outcome.SUCCEEDED if is_done else Outcome.FAILED,
        timestamp=now,
        message=f"its outcome was not known at first; found {'done' if is_done else 'not done'} afterwards",
        details={},
    )


def _drift(turn: Turn) -> tuple[tuple[ObjectRef, str], ...]:
    """Return what differs though Git did not change: which field, from what to what, by whom and when."""
    assert turn.plan is not None
    if not turn.is_applied:
        return ()
    return tuple((change.ref, describe_drift(change)) for change in turn.plan.writes)


def _goes_on(approved: Plan | None, plan: Plan) -> bool:
    """Whether the plan is what is left of an approved one: its steps, to the letter, were all approved."""
    steps = {(change.ref, change.action): change.desired for change in approved.writes} if approved else {}
    return all(
        (change.ref, change.action) in steps and steps[change.ref, change.action] == change.desired
        for change in plan.writes
    )
