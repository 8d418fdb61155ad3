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
from gitsync.objects.change import Action, Decision, HoldReason, Plan, Review, Verdict
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.keys import GROUP, HOOK_RUN, VERSION
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import HookPhase, options_of
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.ports import Clock, Cluster, LiveCache, Records
from gitsync.sync.advice import AdviceGate
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.dependencies import blocking_dependency
from gitsync.sync.executor import SyncExecutor, is_terminating
from gitsync.sync.history import describe_drift
from gitsync.sync.observe import Observation, confirm_missing, created_namespace, health_of, observe
from gitsync.sync.operation import operation_to_status
from gitsync.sync.planner import Planner
from gitsync.sync.reconcile import FailureReason, Reconcile
from gitsync.sync.retry import reset
from gitsync.sync.state_store import StateStore
from gitsync.sync.validation import Locator, policy_violations, validate_desired

_REVIEW_POLL = 5.0
"""A review may be given by another process, straight into the database, and windows open by themselves."""
_PHASES = {HoldReason.REJECTION: "Rejected", HoldReason.APPROVAL: "AwaitingApproval", HoldReason.WINDOW: "Pending"}
_SELF_HEAL_LIMIT, _SELF_HEAL_WINDOW = 5, 60.0
"""So many heals in so many seconds are a fight with another controller, and pause healing."""


class Reconciler:
    """Bring the cluster from what lives to what is declared, as far as policy and the moment allow."""

    def __init__(
        self,
        cluster: Cluster,
        live: LiveCache,
        records: Records,
        clock: Clock,
        planner: Planner,
        advising: AdviceGate,
        execution: SyncExecutor,
        policies: Sequence[Policy],
        rules: Sequence[ManifestRule],
        state: StateStore,
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

    def reconcile(
        self, run: Reconcile, cache: ReconcileCache, desired: Mapping[ObjectRef, Manifest], place: Locator
    ) -> None:
        """Look, plan, and carry out what may be carried out now; the turn holds all that was found."""
        self._observe(run, desired)
        self._validate(run, cache, place)
        self._planner.plan(run, cache)
        run.detected_drift = _drift(run)
        self._execution.restore(run, cache)
        self._execution.supersede(run, cache)
        self._resolve_open_writes(run, cache)
        self._check_policy(run, cache)
        trigger = self._trigger(run, cache)
        is_heard = self._advising.is_ready(run, cache)
        if trigger and is_heard and self._is_allowed(run, cache):
            self._execution.run(run, cache, trigger)
            self._observe(run, desired)
            self._planner.plan(run, cache)
        else:
            self._execution.clean_up_hooks(run, cache)
        self._set_phase(run, cache)

    def delete_all(self, run: Reconcile, cache: ReconcileCache) -> bool:
        """
        Delete what an application holds, because it is being deleted itself, and tell whether that is over.

        Only what the application wants approved still waits, see ``decide_deletion``.
        """
        self._observe(run, {})
        self._planner.plan(run, cache)
        self._execution.restore(run, cache)
        self._execution.supersede(run, cache, "delete")
        self._resolve_open_writes(run, cache)
        plan = run.plan
        assert plan is not None
        run.verdict = decide_deletion(plan, run.app, self._review(run, cache, plan))
        is_allowed = run.verdict.decision is Decision.ALLOWED
        if is_allowed and not all(is_terminating(change) for change in plan.writes):
            self._execution.run(run, cache, "delete")
            self._observe(run, {})
            self._planner.plan(run, cache)
        self._set_phase(run, cache)
        return cache.operation is None and run.plan is not None and not run.plan.writes

    def run_deletion_hooks(
        self, run: Reconcile, cache: ReconcileCache, hooks: Mapping[ObjectRef, Manifest], phase: HookPhase
    ) -> bool:
        """
        Run hooks because the application is being deleted, and tell whether all of them have ended well.

        One that fails is tried again with the delays of the application's retry policy.
        """
        self._observe(run, hooks)
        self._planner.plan(run, cache)
        self._execution.restore(run, cache)
        self._execution.supersede(run, cache, phase.value)
        self._resolve_open_writes(run, cache)
        assert run.plan is not None
        violations = policy_violations(run.app, run.plan, self._policies, self._rules)
        run.verdict = Verdict(Decision.REFUSED if violations else Decision.ALLOWED, violations)
        is_due = not violations and not self._is_backing_off(run, cache)
        is_over = is_due and self._execution.run(run, cache, phase.value)
        self._observe(run, hooks)
        self._set_phase(run, cache)
        return is_over

    def _observe(self, run: Reconcile, desired: Mapping[ObjectRef, Manifest]) -> None:
        run.stage = FailureReason.OBSERVE
        observation = confirm_missing(
            observe(desired, run.inventory, self._cluster, self._live), run.inventory, self._cluster
        )
        run.observation = observation
        created = created_namespace(run.app)
        self._state.set_declared(run.app.key, frozenset(ref for ref in desired if created.get(ref) != desired[ref]))
        run.inventory = _updated_inventory(run, observation)
        run.health = {
            ref: health_of(ref, observation.live.get(ref), self._live, run.app.health_checks)
            for ref, manifest in desired.items()
            if not options_of(manifest).hooks
        }

    def _validate(self, run: Reconcile, cache: ReconcileCache, place: Locator) -> None:
        """Refuse a revision with an object that does not fit its schema, before anything of it is written."""
        observation = run.observation
        assert observation is not None
        if cache.validated is observation.desired and cache.validated_by is observation.schemas:
            return
        run.stage = FailureReason.RENDER
        try:
            validate_desired(observation, place)
        except InvalidInput:
            run.observation = None
            raise
        cache.validated, cache.validated_by = observation.desired, observation.schemas

    def _check_policy(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Judge what is declared by policy, also where no sync is due: a hook is declared and need not be written."""
        assert run.plan is not None
        assert run.observation is not None
        judged = (run.observation.desired, run.app)
        if (
            cache.policy_checked is None
            or cache.policy_checked[0] is not judged[0]
            or cache.policy_checked[1] != judged[1]
        ):
            cache.violations = policy_violations(run.app, run.plan, self._policies, self._rules)
            cache.policy_checked = judged
        if cache.violations and cache.operation is None:
            run.verdict = Verdict(Decision.REFUSED, cache.violations)

    def _trigger(self, run: Reconcile, cache: ReconcileCache) -> str:
        """Return why to sync now, empty when there is nothing to do or the application does not want it."""
        plan, app = run.plan, run.app
        assert plan is not None
        if cache.operation is not None:
            return cache.operation.trigger
        if all(is_terminating(change) for change in plan.writes):
            return ""
        if run.is_requested:
            return "manual"
        if run.pin is not None and run.pin.to_commit and not run.is_applied:
            return "rollback"
        if not app.sync.automated or (run.pin is not None and not run.pin.to_commit):
            return ""
        if not run.is_applied:
            return "retry" if cache.retry.failures else "commit"
        return "drift" if app.sync.self_heal else ""

    def _is_allowed(self, run: Reconcile, cache: ReconcileCache) -> bool:
        """Ask the gate, the retry policy and the fight breaker."""
        plan = run.plan
        assert plan is not None
        now = self._clock.monotonic()
        if self._is_backing_off(run, cache):
            return False
        if not run.is_applied and cache.operation is None:
            run.message = blocking_dependency(run.app, plan.revision, self._application)
            if run.message:
                return False
        if run.is_applied and len(cache.self_heals) >= _SELF_HEAL_LIMIT:
            pause = cache.self_heals[-_SELF_HEAL_LIMIT] + _SELF_HEAL_WINDOW - now
            if pause > 0:
                run.message = (
                    f"healed {_SELF_HEAL_LIMIT} times within a minute: another controller writes the same fields"
                )
                run.requeue_in(pause)
                return False
        operation = cache.operation
        if operation is not None and operation.approver and _continues(operation.approved, plan):
            run.verdict = Verdict(Decision.ALLOWED)
            return True
        run.verdict = decide(
            plan,
            run.app,
            policy_for(self._policies, run.app),
            self._review(run, cache, plan),
            run.now,
            manual=run.is_requested,
            violations=cache.violations,
        )
        return run.verdict.decision is Decision.ALLOWED

    def _review(self, run: Reconcile, cache: ReconcileCache, plan: Plan) -> Review | None:
        sync = cache.operation.id if cache.operation is not None else ""
        return self._records.review(run.app.key, plan.digest, run.now, sync=sync)

    def _is_backing_off(self, run: Reconcile, cache: ReconcileCache) -> bool:
        """Whether what failed is not to be tried again yet."""
        due = cache.retry.retry_at if cache.retry.input == run.input else 0.0
        left = due - self._clock.monotonic()
        if left > 0:
            run.requeue_in(left)
        return left > 0

    def _application(self, key: str) -> Manifest | None:
        resource = self._cluster.resource(GROUP, VERSION, "Application")
        namespace, _, name = key.partition("/")
        return self._live.get(resource, namespace, name) if resource is not None else None

    def _resolve_open_writes(self, run: Reconcile, cache: ReconcileCache) -> None:
        """
        Give an outcome to writes that have none: after a crash, or when the answer never came.

        The plan tells: an apply that it would do again was not done, any other was. A delete was done when the object
        is gone or on its way out, a hook when it bears the mark of its sync.
        """
        if not cache.has_unresolved_writes:
            return
        assert run.plan is not None
        open_intents = [record for record in self._records.unfinished() if record.application == run.app.key]
        self._records.audit(_resolved(intent, _has_taken_effect(intent, run), run.now) for intent in open_intents)
        cache.has_unresolved_writes = False

    def _set_phase(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Say in one word, and a sentence, where the application stands."""
        plan, operation = run.plan, cache.operation
        assert plan is not None
        run.operation = operation_to_status(operation)
        current = {change.ref for change in plan.writes}
        run.problems = {ref: result.message for ref, result in cache.failed.items() if ref in current}
        run.drift_objects = len(plan.writes) if run.is_applied and not run.app.is_deleted else 0
        is_refused = run.verdict is not None and run.verdict.decision is Decision.REFUSED
        if not plan.writes and operation is None and not is_refused:
            run.phase = "Synced"
            run.mark_applied(plan.revision)
            self._report_failed_hooks(run, cache)
        elif operation is not None and (run.verdict is None or run.verdict.decision is Decision.ALLOWED):
            run.phase, run.reason = "Executing", "Waiting"
            run.message = f"waits for {operation.waiting}"
        elif run.verdict is not None and run.verdict.decision is Decision.HELD:
            run.phase, run.reason = _PHASES[run.verdict.holds[0]], run.verdict.holds[0].value
            run.message = "; ".join(run.verdict.reasons)
            run.requeue_in(_REVIEW_POLL)
        elif is_refused and run.verdict is not None:
            run.phase, run.reason = "Failed", "Refused"
            run.message = "; ".join(run.verdict.reasons)
        elif run.problems:
            run.phase, run.reason = "Failed", "ApplyFailed"
        elif cache.retry.message and cache.retry.input == run.input:
            run.phase, run.reason = "Failed", "SyncFailed"
            run.message = cache.retry.message
        elif all(is_terminating(change) for change in plan.writes):
            run.phase, run.reason = "Executing", "Deleting"
            run.message = f"waits for {plan.writes[0].ref} to be gone"
        elif run.drift_objects:
            run.phase, run.reason = "Drifted", "Drifted"
            count = run.drift_objects
            more = f" and {count - 1} more" if count > 1 else ""
            differ = f"{count} objects differ" if count > 1 else "1 object differs"
            run.message = run.message or f"{differ} from Git: {plan.writes[0].ref}{more}"
        else:
            run.phase, run.reason = "Pending", "OutOfSync"
            run.message = run.message or f"{len(plan.writes)} steps wait for a sync"

    def _report_failed_hooks(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Everything is applied: all that can still be wrong is a hook that failed after it, for this very input."""
        failed = {ref: result for ref, result in cache.failed.items() if is_hook(result.change)}
        if failed and cache.retry.input == run.input:
            run.phase, run.reason = "Failed", "HookFailed"
            run.problems = {ref: result.message for ref, result in failed.items()}
        else:
            reset(cache, run)
            cache.failed.clear()


def _updated_inventory(run: Reconcile, observation: Observation) -> Inventory:
    """
    Return the inventory as far as this observation, a complete one, narrows or completes it.

    Dropped are objects that are neither declared nor live, and those that now belong to another application.
    """
    entries: dict[ObjectRef, InventoryEntry] = {}
    for ref in observation.desired.keys() | run.inventory.entries.keys():
        live = observation.live.get(ref)
        if ref in observation.desired and live is not None and is_owned(run.app, live):
            entries[ref] = InventoryEntry(observation.versions[ref], uid_of(live))
        elif ref not in run.inventory:
            continue
        elif ref in observation.desired or (live is not None and owner_of(live) in ("", run.app.key)):
            entries[ref] = run.inventory.entries[ref]
    return Inventory(entries)


def _has_taken_effect(intent: AuditRecord, run: Reconcile) -> bool:
    assert run.observation is not None
    assert run.plan is not None
    ref = ObjectRef.from_path(intent.resource)
    live = run.observation.live.get(ref)
    if intent.action == Action.PRUNE.value:
        return live is None or bool(metadata_of(live).get("deletionTimestamp"))
    if intent.action == Action.HOOK.value:
        return live is not None and annotations_of(live).get(HOOK_RUN, "").startswith(intent.sync)
    return all(change.ref != ref for change in run.plan.writes)


def _resolved(intent: AuditRecord, is_done: bool, now: datetime) -> AuditRecord:
    return replace(
        intent,
        outcome=Outcome.SUCCEEDED if is_done else Outcome.FAILED,
        timestamp=now,
        message=f"its outcome was not known at first; found {'done' if is_done else 'not done'} afterwards",
        details={},
    )


def _drift(run: Reconcile) -> tuple[tuple[ObjectRef, str], ...]:
    """Return what differs though Git did not change: which field, from what to what, by whom and when."""
    assert run.plan is not None
    if not run.is_applied:
        return ()
    return tuple((change.ref, describe_drift(change)) for change in run.plan.writes)


def _continues(approved: Plan | None, plan: Plan) -> bool:
    """Whether the plan is what is left of an approved one: its steps, to the letter, were all approved."""
    steps = {(change.ref, change.action): change.desired for change in approved.writes} if approved else {}
    return all(
        (change.ref, change.action) in steps and steps[change.ref, change.action] == change.desired
        for change in plan.writes
    )
