"""Decide whether a plan runs now: trigger, policy, reasoner, retry backoff, dependencies and the gate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from gitsync.apply.execute import is_terminating
from gitsync.apply.hooks import is_hook
from gitsync.errors import InvalidInput
from gitsync.gate.decide import decide, decide_deletion
from gitsync.objects.application import Application, dependencies_of, followed_source
from gitsync.objects.change import Action, Change, Decision, HoldReason, Plan, Review, Verdict
from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.options import HookPhase
from gitsync.plan.parts import Choice, chosen_part, part_of
from gitsync.ports import Advice, Clock, Reasoner, Reviews
from gitsync.sync.cache import CheckCache, ExecutionCache, ReconcileCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.planner import Planned
from gitsync.sync.policies import Policies

DELETE = "delete"
"""The trigger of an operation that deletes the objects of a deleted Application."""
_ADVICE_POLL = 0.3


@dataclass(frozen=True, slots=True)
class SyncDecision:
    """
    Whether the plan runs now, and why not: the gate's verdict (None where it was not asked) or a message.

    ``plan`` is the plan with the reasoner's advice, limited to the approved steps; ``trigger`` is why it runs, empty
    where it does not run now.
    """

    plan: Plan
    trigger: str = ""
    verdict: Verdict | None = None
    message: str = ""
    requeue_after: float | None = None
    ends_choice: bool = False
    """Whether the requested sync of chosen objects is over without a step."""


class SyncGate:
    """Decide whether plans run, from policies, reviews, windows, retries and dependencies."""

    def __init__(
        self,
        reviews: Reviews,
        clock: Clock,
        advice: AdviceGate,
        policies: Policies,
    ) -> None:
        self._reviews = reviews
        self._clock = clock
        self._advice = advice
        self._policies = policies

    def decide(self, planned: Planned, cache: ReconcileCache) -> SyncDecision:
        """
        Decide on a sync: retry backoff, dependencies, earlier self-heals, and then policy and reviews.

        Of a sync of chosen objects their steps alone are judged and run, while the decision has the whole plan until
        then: it is what users see and approve.
        """
        execution = cache.execution
        # of all steps, also while only a part runs: what violates a policy is kept for the next decision
        violations = self._violations(planned, cache.checks)
        planned = _running_part(planned, execution)
        # before the verdict: a rule may keep the authors of the commits from approving
        plan = self._with_authors(planned)
        verdict = Verdict(Decision.REFUSED, violations) if violations and execution.operation is None else None
        # a running operation has its part already
        choice = planned.inputs.choice if execution.operation is None else None
        trigger = _trigger(_chosen(planned, choice), execution)
        # the steps that are left of a running operation were part of the reviewed plan
        advised = plan if execution.operation is not None else self._advice.advised(planned.app, plan)
        if advised is None:
            reasoner = planned.app.openai.model if planned.app.openai else ""
            message = f"waiting for {reasoner} to review the plan"
            return SyncDecision(plan, verdict=verdict, message=message, requeue_after=_ADVICE_POLL)
        decision = SyncDecision(advised, verdict=verdict)
        if not trigger:
            # what was chosen is as Git declares it, or of an older commit
            ended = _ended(choice, advised) if choice is not None else ""
            return replace(decision, message=ended, ends_choice=choice is not None)
        blocked = self._blocked(planned, decision, execution, trigger)
        if blocked is not None:
            return blocked
        judged = _chosen(replace(planned, plan=advised), choice)
        verdict = self._verdict(judged, execution, violations, advised)
        if verdict.decision is not Decision.ALLOWED:
            # what is refused does not wait for the user, and must not keep the Application from other syncs
            is_over = verdict.decision is Decision.REFUSED or HoldReason.REJECTION in verdict.holds
            return SyncDecision(advised, "", verdict, ends_choice=choice is not None and is_over)
        if choice is None or verdict.steps:
            # an approval of some steps names what runs, whatever was chosen before
            return SyncDecision(_part(replace(planned, plan=advised), verdict.steps).plan, trigger, verdict)
        steps = tuple(step.ref.path for step in judged.plan.writes)
        return SyncDecision(judged.plan, trigger, replace(verdict, steps=steps))

    def judge(self, planned: Planned, cache: ReconcileCache) -> tuple[Planned, Verdict]:
        """Return the plan with its authors, and what policies, reviews and windows say of it, due or not."""
        judged = replace(planned, plan=self._with_authors(planned))
        violations = self._violations(judged, cache.checks)
        return judged, self._verdict(judged, cache.execution, violations, judged.plan)

    def decide_deletion(self, planned: Planned, execution: ExecutionCache) -> SyncDecision:
        """Decide on deleting the objects of a deleted Application; see ``gate.decide.decide_deletion``."""
        planned = _running_part(planned, execution)
        plan = self._with_authors(planned)
        policy = self._policies.of(planned.app)
        verdict = decide_deletion(plan, planned.app, self._review(planned, execution), policy)
        plan = _part(replace(planned, plan=plan), verdict.steps).plan
        is_allowed = verdict.decision is Decision.ALLOWED
        is_running = execution.operation is not None  # and has to end, also where nothing is left to delete
        is_due = is_allowed and (is_running or not all(is_terminating(change) for change in plan.writes))
        return SyncDecision(plan, DELETE if is_due else "", verdict)

    def decide_hooks(self, planned: Planned, execution: ExecutionCache, phase: HookPhase) -> SyncDecision:
        """Decide on running the hooks of a deleted Application: policy and retry backoff."""
        violations = self._policies.violations(planned.app, planned.plan)
        verdict = Verdict(Decision.REFUSED if violations else Decision.ALLOWED, violations)
        backoff = 0.0 if violations else self._backoff(planned, execution)
        trigger = "" if violations or backoff > 0 else phase.value
        return SyncDecision(planned.plan, trigger, verdict, requeue_after=backoff if backoff > 0 else None)

    def _violations(self, planned: Planned, cache: CheckCache) -> tuple[str, ...]:
        """Return the policy violations of the declared objects, also where no sync is due: hooks count too."""
        # the Application by value, since each reconcile parses it again; the others are large, and identical while
        # nothing changed
        checked = (planned.observation.desired, planned.app, self._policies.current)
        last_check = cache.policy_checked
        if (
            last_check is None
            or last_check[0] is not checked[0]
            or last_check[2] is not checked[2]
            or last_check[1] != checked[1]
        ):
            cache.violations = self._policies.violations(planned.app, planned.plan)
            cache.policy_checked = checked
        return cache.violations

    def _with_authors(self, planned: Planned) -> Plan:
        inputs = planned.inputs
        return self._policies.with_authors(inputs.app, planned.plan, inputs.state.last_of(inputs.app))

    def _blocked(
        self, planned: Planned, decision: SyncDecision, execution: ExecutionCache, trigger: str
    ) -> SyncDecision | None:
        """Return the decision where backoff, a dependency or earlier self-heals delay the sync, otherwise None."""
        backoff = self._backoff(planned, execution)
        if backoff > 0:
            return replace(decision, requeue_after=backoff)
        if planned.awaited and execution.operation is None:
            return replace(decision, message=_awaiting(planned.awaited))
        if not planned.is_applied and execution.operation is None:
            message = blocking_dependency(planned.app, planned.plan.revision, self._policies.application)
            if message:
                return replace(decision, message=message)
        if trigger == "drift" and execution.operation is None:
            return self._postponed(planned, decision, execution)
        return None

    def _postponed(self, planned: Planned, decision: SyncDecision, execution: ExecutionCache) -> SyncDecision | None:
        """Return the decision where every correction waits because others set the same fields back, else None."""
        heals = execution.self_heals
        now = self._clock.monotonic()
        steps = [step for step in planned.plan.writes if not is_hook(step) and not is_terminating(step)]
        delays = {step.ref: heals.remaining(step, now) for step in steps}
        if not steps or min(delays.values()) <= 0:
            return None
        first = min(steps, key=lambda step: delays[step.ref])
        more = f"; and {len(steps) - 1} more" if len(steps) > 1 else ""
        message = heals.explain(first, planned.observation.live.values()) + more
        return replace(decision, message=message, requeue_after=delays[first.ref])

    def _verdict(
        self, planned: Planned, execution: ExecutionCache, violations: tuple[str, ...], whole: Plan
    ) -> Verdict:
        """Return the verdict on a plan, which may be a part of the ``whole``."""
        operation = execution.operation
        # the approval is bound to this sync, and each step that is left was part of it
        if operation is not None and operation.approver and _is_part_of(planned.plan, operation.approved):
            return Verdict(Decision.ALLOWED)
        return decide(
            planned.plan,
            planned.app,
            self._policies.of(planned.app),
            self._review(planned, execution),
            planned.inputs.now,
            manual=planned.inputs.is_requested,
            violations=violations,
            whole=whole,
        )

    def _review(self, planned: Planned, execution: ExecutionCache) -> Review | None:
        sync = execution.operation.id if execution.operation is not None else ""
        key = planned.app.key
        inputs = planned.inputs
        return self._reviews.review(key, planned.plan.digest, inputs.now, sync=sync, kept=inputs.state.audit)

    def _backoff(self, planned: Planned, execution: ExecutionCache) -> float:
        """Return the seconds until the retry backoff has elapsed; not positive when it has."""
        due = execution.retry.retry_at if execution.retry.input == planned.retry_key else 0.0
        return due - self._clock.monotonic()


def _running_part(planned: Planned, execution: ExecutionCache) -> Planned:
    """Return what is planned, limited to what a running operation may do."""
    operation = execution.operation
    return _part(planned, operation.part, has_hooks=operation.has_hooks) if operation is not None else planned


def _part(planned: Planned, steps: Sequence[str], *, has_hooks: bool = True) -> Planned:
    """Return what is planned, limited to these steps if there are any."""
    if not steps:
        return planned
    part = part_of(planned.plan, steps, planned.app.risk.max_deletes, has_hooks=has_hooks)
    return replace(planned, plan=part)


def _chosen(planned: Planned, choice: Choice | None) -> Planned:
    """Return what is planned, limited to what a user chose if there is a choice."""
    if choice is None:
        return planned
    return replace(planned, plan=chosen_part(planned.plan, choice, planned.app.risk.max_deletes))


def _ended(choice: Choice, plan: Plan) -> str:
    """Return why a sync of chosen objects ends without a step, empty where they are as Git declares them."""
    if choice.revision == plan.revision:
        return ""
    return f"the requested sync of chosen objects ended, since {plan.revision[:12]} is newer: choose them again"


def _trigger(planned: Planned, execution: ExecutionCache) -> str:
    """Return why to sync now, empty when there is nothing to do or the Application does not ask for it."""
    app = planned.app
    rollback = planned.inputs.state.rollback
    if execution.operation is not None:
        return execution.operation.trigger
    if all(is_terminating(change) for change in planned.plan.writes):
        # true without writes too; where objects are only on their way out, a sync has nothing to do
        return ""
    if planned.inputs.is_requested:
        return "manual"
    # also where automation is off: the rollback is a decision about a commit that was synced already
    if rollback is not None and rollback.to_commit and not planned.is_applied:
        return "rollback"
    # a rollback that holds leaves the cluster unchanged until a user requests a sync
    if not app.sync.automated or (rollback is not None and not rollback.to_commit):
        return ""
    if not planned.is_applied:
        return "retry" if execution.retry.failures else "commit"
    # what the sync of the commit left for later, until nothing reads it any more
    if not planned.drifted:
        return "retry" if execution.retry.failures else "commit"
    return "drift" if app.sync.self_heal.enabled else ""


def _awaiting(keys: Collection[str]) -> str:
    """Return which Applications have to declare their objects first."""
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    # the first by name, so that each reconcile reports the same one
    named = f"{min(keys)}{more}"
    return f"waiting for {named} to declare objects, which may be the same; fix or suspend one that fails"


def _is_part_of(plan: Plan, approved: Plan | None) -> bool:
    """Whether every step of the plan was approved exactly as it is; a replace was approved with its create."""
    steps = {(change.ref, change.action): change.desired for change in approved.writes} if approved else {}
    # after its delete the object is absent, and the rest of the replace is planned as a create
    steps |= {(ref, Action.CREATE): desired for (ref, action), desired in steps.items() if action is Action.REPLACE}
    return all(
        (change.ref, change.action) in steps and steps[change.ref, change.action] == change.desired
        for change in plan.writes
    )


RULE = "reasoner"


class AdviceGate:
    """Ask the reasoner for advice on a plan before the gate decides."""

    def __init__(self, reasoner: Reasoner | None, secrets: ApplicationSecrets) -> None:
        self._reasoner = reasoner
        self._secrets = secrets

    def advised(self, app: Application, plan: Plan) -> Plan | None:
        """
        Return the plan with the reasoner's advice, None while the answer is pending and nothing may run.

        Without a reasoner the plan is returned unchanged.
        """
        if self._reasoner is None or app.openai is None or not plan.writes:
            return plan
        try:
            key = self._secrets.reasoner_key(app)
        except InvalidInput as error:
            # without its key the reasoner is left out: it only adds to rules that decide without it
            return with_advice(plan, Advice(f"(Explained by rules alone: {error}.)"))
        advice = self._reasoner.advise(app, plan, key)
        return with_advice(plan, advice) if advice is not None else None


def with_advice(plan: Plan, advice: Advice) -> Plan:
    """Return the plan with the advice; its most severe steps, and so the plan, have at least the advised risk."""
    explanation = f"{plan.explanation} {advice.explanation}".strip()
    # never lower: the answer of a model may be influenced by the author of the manifests
    if advice.risk.level <= plan.risk.level:
        return replace(plan, explanation=explanation)

    def raised(change: Change) -> Change:
        if not change.is_write or change.risk is not worst:
            return change
        return replace(change, risk=advice.risk, rule=RULE, reason=f"the reasoner: {advice.reason}")

    worst = max((change.risk for change in plan.writes), key=lambda risk: risk.level)
    changes = tuple(raised(change) for change in plan.changes)
    return replace(plan, changes=changes, risk=advice.risk, explanation=explanation)


Find = Callable[[str], Manifest | None]
"""Return an Application by ``namespace/name``."""


def blocking_dependency(app: Application, commit: str, find: Find) -> str:
    """
    Return what the Application waits for, empty when every Application it depends on is ready.

    Ready is the condition Ready of the current generation and, where both follow the same revision of the same
    repository, at the same commit.
    """
    if not app.depends_on:
        return ""
    cycle = _cycle(app.key, app.depends_on, find)
    if cycle:
        return f"spec.dependsOn is a cycle: {' → '.join(cycle)}"
    waits = (_blocking_reason(app, key, find(key), commit) for key in app.depends_on)
    return next((text for text in waits if text), "")


def _blocking_reason(app: Application, key: str, other: Manifest | None, commit: str) -> str:
    if other is None:
        return f"depends on Application {key}, which does not exist"
    # the status of an older spec may report Ready for another commit or path
    if at(other, "status", "observedGeneration") != metadata_of(other).get("generation"):
        return f"depends on Application {key}, whose latest spec is not reconciled yet"
    ready = find_condition(other.get("status") or {}, READY)
    if ready.get("status") != "True":
        return f"depends on Application {key}, which is not ready: {ready.get('reason', 'Unknown')}"
    # another revision has commits of its own, so that only Ready can be compared
    if (
        followed_source(other) == (app.source.repo_url, app.source.revision)
        and at(other, "status", "revision", "applied") != commit
    ):
        return f"depends on Application {key}, which is not at commit {commit[:12]} yet"
    return ""


def _cycle(key: str, depends_on: tuple[str, ...], find: Find) -> tuple[str, ...]:
    """Return a dependency path that leads back to the Application, empty when there is none."""
    paths: list[tuple[str, ...]] = [(key, other) for other in depends_on]
    visited: set[str] = set()
    while paths:
        path = paths.pop()
        last = path[-1]
        if last == key:
            return path
        if last not in visited:
            visited.add(last)
            paths += [(*path, other) for other in dependencies_of(find(last) or {})]
    return ()
