"""Converge: observe → plan → gate → apply → health, for any desired state."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from gitsync.apply.execute import Applier
from gitsync.apply.job import Job, Round
from gitsync.errors import ClusterUnavailable, GitsyncError, InvalidInput
from gitsync.gate.approvals import asks, needs_approval
from gitsync.gate.checks import check_manifests
from gitsync.gate.decide import decide
from gitsync.gate.policy import Policy, violations
from gitsync.gate.rules import ManifestRule, check_rules
from gitsync.gate.validate import validate
from gitsync.objects.change import Action, Change, Decision, Plan, Verdict
from gitsync.objects.inventory import Held, Inventory
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of, resource_version_of, uid_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.make import Seen, make_plan, uncertain
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.ports import Clock, Cluster, Live, Records
from gitsync.sync.attempts import count_failure, count_success
from gitsync.sync.finish import describe_drift, finish, steps_of
from gitsync.sync.memory import Memory, Operation
from gitsync.sync.observe import Observation, health_of, observe
from gitsync.sync.state import State
from gitsync.sync.statuses import Statuses
from gitsync.sync.turn import Stage, Turn

Place = Callable[[Manifest, str], str]
"""Tell where a field of a rendered object was written, as ``file:line``."""

_SAFETY = 10.0
"""Watch events take a waiting sync up again; should one be missed, so does this many seconds."""
_APPROVAL_POLL = 5.0
"""An approval may be given by another process, straight into the database."""
_PEERS_TIME, _PEERS_LOOK = 10.0, 0.2
"""So long a prune waits for other applications of the repository, looking so often."""
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
        applier: Applier,
        statuses: Statuses,
        policy: Policy,
        rules: Sequence[ManifestRule],
        state: State,
    ) -> None:
        self._cluster = cluster
        self._live = live
        self._records = records
        self._clock = clock
        self._applier = applier
        self._statuses = statuses
        self._policy = policy
        self._rules = rules
        self._state = state
        self.nudge: Callable[[Sequence[str]], None] = lambda keys: None
        """Called with applications that should look at Git now; set once, before the start."""

    def converge(self, turn: Turn, memory: Memory, desired: Mapping[ObjectRef, Manifest], place: Place) -> None:
        """Look, plan, and carry out what may be carried out now; the turn holds all that was found."""
        self._observe(turn, desired)
        self._check(turn, memory, place)
        self._plan(turn, memory)
        turn.drift_seen = _drift(turn)
        self._supersede(turn, memory)
        self._resolve_interrupted(turn, memory)
        trigger = self._trigger(turn, memory)
        if trigger and self._is_allowed(turn, memory):
            self._execute(turn, memory, trigger)
            self._observe(turn, desired)
            self._plan(turn, memory)
        self._conclude(turn, memory)

    def clear(self, turn: Turn, memory: Memory) -> None:
        """
        Delete everything that an application holds, because it is being deleted itself.

        Deleting the application is a person's word, so the guards against mass deletion do not ask again; steps of a
        class that the application wants approved, such as deleting a volume, still wait.
        """
        self._observe(turn, {})
        self._plan(turn, memory)
        plan = turn.plan
        assert plan is not None
        approver = self._records.approval(turn.app.key, plan.digest, turn.now)
        if needs_approval(turn.app, plan.risk) and not approver:
            turn.verdict = Verdict(Decision.HELD, (asks(turn.app, plan),))
        else:
            turn.verdict = Verdict(Decision.ALLOWED, (), approver)
            if not all(_is_terminating(change) for change in plan.writes):
                self._execute(turn, memory, "delete")
                self._observe(turn, {})
                self._plan(turn, memory)
        self._conclude(turn, memory)

    def _observe(self, turn: Turn, desired: Mapping[ObjectRef, Manifest]) -> None:
        turn.stage = Stage.OBSERVE
        observation = observe(desired, turn.inventory, self._cluster, self._live)
        turn.observation = observation
        self._state.declare(turn.app.key, frozenset(desired))
        turn.inventory = _held(turn, observation)
        turn.health = {ref: health_of(ref, observation.live.get(ref), self._live) for ref in desired}

    def _check(self, turn: Turn, memory: Memory, place: Place) -> None:
        """Refuse a revision with an object that does not fit its schema, before anything of it is written."""
        observation = turn.observation
        assert observation is not None
        if memory.checked is observation.desired and memory.checked_by is observation.schemas:
            return
        turn.stage = Stage.RENDER
        for ref, manifest in observation.desired.items():
            schema = observation.schema_of(manifest)
            for problem in validate(manifest, schema) if schema is not None else ():
                turn.observation = None
                raise InvalidInput(
                    f"{problem.path}: {problem.what}", where=place(manifest, problem.path), subject=str(ref)
                )
            for line in check_manifests([manifest]):
                turn.observation = None
                raise InvalidInput(line, where=place(manifest, ""))
        memory.checked, memory.checked_by = observation.desired, observation.schemas

    def _plan(self, turn: Turn, memory: Memory) -> None:
        turn.stage = Stage.PLAN
        observation = turn.observation
        assert observation is not None
        plan = self._make(turn, memory, _remembered(memory, observation))
        refs = [ref for ref in uncertain(plan) if ref in observation.live]
        if refs:
            self._dry_run(refs, memory, observation)
            plan = self._make(turn, memory, _remembered(memory, observation))
        memory.plan = turn.plan = plan

    def _make(self, turn: Turn, memory: Memory, dry_runs: Mapping[ObjectRef, Manifest | GitsyncError]) -> Plan:
        assert turn.observation is not None
        refs = turn.observation.versions
        seen = Seen(turn.observation.live, dry_runs, self._state.claims(turn.app.key, refs))
        revision = turn.goal.id if turn.goal else ""
        return make_plan(
            turn.app,
            revision,
            turn.observation.desired,
            seen,
            turn.inventory,
            turn.observation.schema_of,
            memory.plan,
        )

    def _dry_run(self, refs: list[ObjectRef], memory: Memory, observation: Observation) -> None:
        """Ask the API server what applying would do, and remember it for exactly this desired and live object."""
        for ref in refs:
            desired, live = observation.desired[ref], observation.live[ref]
            answer: Manifest | GitsyncError
            try:
                answer = self._cluster.apply(desired, manager=FIELD_MANAGER, dry_run=True)
            except ClusterUnavailable:
                raise  # then nobody knows, and nothing may be concluded
            except GitsyncError as error:
                answer = error
            memory.dry_runs[ref] = (desired, resource_version_of(live), answer)

    def _supersede(self, turn: Turn, memory: Memory) -> None:
        """End an operation that still waits when there is a newer commit: what it did stays, the new one goes on."""
        operation = memory.operation
        if operation is None or turn.goal is None or operation.commit.id == turn.goal.id:
            return
        memory.operation = None
        took = round((self._clock.monotonic() - operation.began) * 1000)
        message = f"superseded by {turn.goal.id[:12]} while it waited for {operation.waiting}"
        turn.record = finish(operation, turn.app, self._records, message, took, superseded=True)

    def _trigger(self, turn: Turn, memory: Memory) -> str:
        """Return why to sync now, empty when there is nothing to do or the application does not want it."""
        plan, app = turn.plan, turn.app
        assert plan is not None
        if all(_is_terminating(change) for change in plan.writes):
            return ""
        if memory.operation is not None:
            return memory.operation.trigger
        if turn.is_requested:
            return "manual"
        if not app.sync.automated:
            return ""
        if plan.revision != turn.applied:
            return "retry" if memory.attempts.failures else "commit"
        return "drift" if app.sync.self_heal else ""

    def _is_allowed(self, turn: Turn, memory: Memory) -> bool:
        """Ask the gate, the retry policy and the fight breaker."""
        plan = turn.plan
        assert plan is not None
        now = self._clock.monotonic()
        due = memory.attempts.due if memory.attempts.of == turn.input else 0.0
        if now < due:
            turn.wake_in(due - now)
            return False
        if plan.revision == turn.applied and len(memory.heals) >= _HEALS:
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
            self._policy,
            self._records.approval(turn.app.key, plan.digest, turn.now),
            turn.now,
            manual=turn.is_requested,
            violations=self._violations(turn, plan),
        )
        return turn.verdict.decision is Decision.ALLOWED

    def _violations(self, turn: Turn, plan: Plan) -> tuple[str, ...]:
        namespaced = {change.ref.of: bool(change.ref.namespace) for change in plan.changes}
        desired = {change.ref: change.desired for change in plan.changes if change.desired is not None}
        return (
            *violations(self._policy, turn.app, desired, lambda of: namespaced[of]),
            *check_rules(self._rules, desired.values()),
        )

    def _execute(self, turn: Turn, memory: Memory, trigger: str) -> None:
        turn.stage = Stage.APPLY
        plan, observation = turn.plan, turn.observation
        assert plan is not None
        assert observation is not None
        assert turn.verdict is not None
        operation = memory.operation
        if operation is None:
            operation = memory.operation = self._begin(turn, memory, plan, trigger)
        operation.plan = plan

        def hold(entries: Mapping[ObjectRef, Held]) -> None:
            wider = turn.inventory.widened(entries)
            if wider.entries.keys() != turn.inventory.entries.keys():
                status = {**turn.status_before, "phase": "Executing", "inventory": wider.to_status()}
                turn.manifest = self._statuses.write(turn.manifest, status)
            turn.inventory = wider

        if turn.verdict.approver:
            operation.approver, operation.approved = turn.verdict.approver, plan
            self._records.use_approval(turn.app.key, plan.digest)
        lagging = self._wait_for_peers(turn, operation)
        done = self._applier.execute(
            Job(
                turn.app,
                replace(plan, changes=tuple(change for change in plan.changes if _is_due(change, lagging))),
                operation.commit,
                operation.id,
                observation.versions,
                hold,
                lambda ref, manifest: health_of(ref, manifest, self._live),
                approver=operation.approver,
            )
        )
        operation.steps.update(steps_of(done.results))
        if lagging and not done.waiting:
            done = replace(done, waiting=lagging)
            turn.wake_in(_PEERS_LOOK)
        self._account(turn, memory, operation, done)

    def _wait_for_peers(self, turn: Turn, operation: Operation) -> str:
        """
        Return what a prune waits for: applications that may have taken over what left this one.

        They are asked to look at Git at once; one that does not in time is waited for no longer.
        """
        if turn.goal is None or all(change.action is not Action.PRUNE for change in operation.plan.writes):
            return ""
        lagging = self._state.lagging(turn.app.key, turn.app.source.repo_url, turn.goal.id)
        if not lagging or self._clock.monotonic() - operation.began > _PEERS_TIME:
            return ""
        self.nudge(lagging)
        return f"{lagging[0]} to look at commit {turn.goal.id[:12]}, since it may declare what would be pruned"

    def _begin(self, turn: Turn, memory: Memory, plan: Plan, trigger: str) -> Operation:
        return Operation(
            id=uuid.uuid4().hex[:16],
            commit=turn.goal or Commit(turn.applied),
            trigger=trigger,
            initiator=memory.requested_by if trigger == "manual" and memory.requested_by else "automated",
            started=turn.now,
            began=self._clock.monotonic(),
            plan=plan,
        )

    def _account(self, turn: Turn, memory: Memory, operation: Operation, done: Round) -> None:
        """Turn what the round did into the operation's end, or its next look."""
        now = self._clock.monotonic()
        failed = [result for result in done.results if result.outcome is Outcome.FAILED]
        if operation.trigger == "drift":
            healed = sum(1 for result in done.results if result.outcome is Outcome.SUCCEEDED)
            turn.corrected += healed
            if healed:
                memory.heals.append(now)
        if done.waiting and not failed:
            if now - operation.began < turn.app.sync.health_timeout:
                operation.waiting = done.waiting
                turn.wake_in(_SAFETY)
                return
            message = f"waited {turn.app.sync.health_timeout:.0f} s for {done.waiting}"
        else:
            message = f"{len(failed)} of {len(operation.steps)} objects failed" if failed else ""
        memory.operation = None
        memory.failed = {result.change.ref: result for result in failed}
        if failed or message:
            turn.wake_in(count_failure(memory, turn, failed, now))
        else:
            count_success(memory)
            turn.applied = operation.commit.id
            turn.settle_request()
        turn.message = message
        turn.record = finish(operation, turn.app, self._records, message, round((now - operation.began) * 1000))

    def _resolve_interrupted(self, turn: Turn, memory: Memory) -> None:
        """
        Close what a crash left open in the audit: an intent whose effect is there succeeded, others did not.

        The plan tells: a step that it would do again was not done.
        """
        if not memory.is_new:
            return
        memory.is_new = False
        assert turn.plan is not None
        to_do = {change.ref.path for change in turn.plan.writes}
        open_intents = [record for record in self._records.unfinished() if record.application == turn.app.key]
        self._records.audit(
            replace(
                intent,
                outcome=Outcome.FAILED if intent.resource in to_do else Outcome.SUCCEEDED,
                timestamp=turn.now,
                message="the controller stopped before the outcome was recorded; "
                + ("it was not done" if intent.resource in to_do else "it was done"),
                details={},
            )
            for intent in open_intents
        )

    def _conclude(self, turn: Turn, memory: Memory) -> None:
        """Say in one word, and a sentence, where the application stands."""
        plan, operation = turn.plan, memory.operation
        assert plan is not None
        current = {change.ref for change in plan.writes}
        turn.problems = {ref: result.message for ref, result in memory.failed.items() if ref in current}
        turn.drift_objects = len(plan.writes) if plan.revision == turn.applied else 0
        if not plan.writes:
            turn.phase = "Synced"
            turn.applied = plan.revision
            turn.settle_request()
            count_success(memory)
            memory.failed.clear()
            if operation is not None:
                memory.operation = None
                took = round((self._clock.monotonic() - operation.began) * 1000)
                turn.record = turn.record or finish(operation, turn.app, self._records, "", took)
        elif operation is not None:
            turn.phase, turn.reason = "Executing", "Waiting"
            turn.message = f"waits for {operation.waiting}"
        elif turn.verdict is not None and turn.verdict.decision is Decision.HELD:
            turn.phase, turn.reason = "AwaitingApproval", "AwaitingApproval"
            turn.message = "; ".join(turn.verdict.reasons)
            turn.wake_in(_APPROVAL_POLL)
        elif turn.verdict is not None and turn.verdict.decision is Decision.REFUSED:
            turn.phase, turn.reason = "Failed", "Refused"
            turn.message = "; ".join(turn.verdict.reasons)
        elif turn.problems:
            turn.phase, turn.reason = "Failed", "ApplyFailed"
        elif all(_is_terminating(change) for change in plan.writes):
            turn.phase, turn.reason = "Executing", "Deleting"
            turn.message = f"waits for {plan.writes[0].ref} to be gone"
        elif turn.drift_objects:
            turn.phase, turn.reason = "Drifted", "Drifted"
            turn.message = turn.message or f"{turn.drift_objects} objects differ from Git: {plan.writes[0].ref}"
        else:
            turn.phase, turn.reason = "Pending", "OutOfSync"
            turn.message = turn.message or f"{len(plan.writes)} steps wait for a sync"


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


def _remembered(memory: Memory, observation: Observation) -> dict[ObjectRef, Manifest | GitsyncError]:
    """Return the answers to earlier dry runs that still hold: same desired object, same live version."""
    memory.dry_runs = {
        ref: entry
        for ref, entry in memory.dry_runs.items()
        if observation.desired.get(ref) is entry[0] and resource_version_of(observation.live.get(ref, {})) == entry[1]
    }
    return {ref: answer for ref, (_, _, answer) in memory.dry_runs.items()}


def _drift(turn: Turn) -> tuple[tuple[ObjectRef, str], ...]:
    """Return what differs though Git did not change: which field, from what to what, by whom and when."""
    assert turn.plan is not None
    if turn.plan.revision != turn.applied:
        return ()
    return tuple((change.ref, describe_drift(change)) for change in turn.plan.writes)


def _goes_on(approved: Plan | None, plan: Plan) -> bool:
    """Whether the plan is what is left of an approved one: its steps, to the letter, were all approved."""
    steps = {(change.ref, change.action): change.desired for change in approved.writes} if approved else {}
    return all(
        (change.ref, change.action) in steps and steps[change.ref, change.action] == change.desired
        for change in plan.writes
    )


def _is_due(change: Change, lagging: str) -> bool:
    """Whether the step may be carried out now."""
    return not _is_terminating(change) and not (lagging and change.action is Action.PRUNE)


def _is_terminating(change: Change) -> bool:
    """Whether the step deletes what is on its way out already."""
    return change.action is Action.PRUNE and bool(metadata_of(change.live or {}).get("deletionTimestamp"))
