"""Plan what a sync would do, confirmed by dry runs where only the API server can decide."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gitsync.apply.change import impersonated
from gitsync.errors import ClusterUnavailable, GitsyncError, GroupUnavailable, Rejected, TerminalError
from gitsync.gate.approvals import approval_messages, required_class
from gitsync.gate.policy import Policy
from gitsync.kube.kinds import CRD, defined_kind, may_be_outdated
from gitsync.kube.messages import is_misfit
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Plan
from gitsync.objects.manifest import Manifest, resource_version_of
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.applied import AppliedStates
from gitsync.plan.build import build_plan, redefined_kinds, step_alone, uncertain
from gitsync.plan.ownership import APPLIERS
from gitsync.plan.steps import ClusterState, PlanInput
from gitsync.plan.tracking import owner_of
from gitsync.plan.undeclared import REPORT, Undeclared
from gitsync.ports import Cluster
from gitsync.state.declarations import Declarations
from gitsync.sync.additions import Additions, added_fields, additions_to
from gitsync.sync.cache import PlanCache
from gitsync.sync.input import ReconcileInput, Target
from gitsync.sync.observe import Observation
from gitsync.sync.operation import describe_drift

Answer = Manifest | GitsyncError
Answered = tuple[Manifest, str, Answer, datetime]
"""What was declared, the live resourceVersion, the answer to the dry run, and when it was asked."""
_INVALID = "Invalid"
"""The reason of a refusal because of the content of an object (422)."""
_REFUSED = timedelta(seconds=15)
"""How long a refused dry run is cached."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a reconcile started from and observed, and its plan: the input of the gate and of the executor."""

    inputs: ReconcileInput
    target: Target
    observation: Observation
    plan: Plan
    undeclared: Undeclared = REPORT
    """What happens to fields that others added."""
    states: AppliedStates = field(default_factory=AppliedStates)
    """What the Application applied last, which grows with each write that succeeds."""
    additions: Additions = field(default_factory=dict)
    """What users added beside what Git declares."""
    awaited: frozenset[str] = frozenset()
    """The Applications that have to declare their objects first: they may declare some that this one would create."""

    @property
    def app(self) -> Application:
        """The Application."""
        return self.inputs.app

    @property
    def is_applied(self) -> bool:
        """Whether the plan's revision was applied completely before, for this source and destination."""
        return self.plan.revision == self.inputs.state.applied_to(self.app)

    @property
    def retry_key(self) -> tuple[str, int, str]:
        """What failures are counted for: a new commit, spec or request resets the count."""
        return (self.target.fetched, self.app.generation, f"{self.app.requested_sync} {self.inputs.requested_by}")

    @property
    def drifted(self) -> tuple[Change, ...]:
        """The steps for objects that others changed; all steps where Git did not change since the last sync."""
        steps = self.plan.outstanding if self.is_applied else self.plan.repairs
        return tuple(step for step in steps if not step.is_leftover)

    @property
    def drift(self) -> tuple[tuple[ObjectRef, str], ...]:
        """The objects that others changed: field, values, manager and time."""
        return tuple((change.ref, describe_drift(change)) for change in self.drifted)


@dataclass(frozen=True, slots=True)
class PlanRules:
    """
    What the operator sets for all plans.

    Fields of the field managers in ``appliers`` are taken over, as those of a client that applied before gitsync did;
    ``policy_of`` returns the policy of an Application.
    """

    appliers: frozenset[str] = APPLIERS
    policy_of: Callable[[Application], Policy] = lambda app: Policy()


_DEFAULT_RULES = PlanRules()


class Planner:
    """
    Build plans. Dry-run results are cached for exactly the objects that they were about.

    A refusal is retried after a while, since the cluster's rules may change, or when a user requests a sync.
    """

    def __init__(
        self,
        cluster: Cluster,
        declarations: Declarations,
        pool: Executor,
        rules: PlanRules = _DEFAULT_RULES,
        is_ours: Callable[[str], bool] = lambda key: True,
    ) -> None:
        self._cluster = cluster
        self._declarations = declarations
        self._pool = pool
        self._rules = rules
        self._is_ours = is_ours

    def plan(self, inputs: ReconcileInput, target: Target, observation: Observation, cache: PlanCache) -> Planned:
        """Return the plan; raise ClusterUnavailable when a required dry run gets no response."""
        undeclared = self._undeclared(inputs.app)
        if (cache.undeclared, cache.holds) != (undeclared, inputs.app.holds):
            # the steps of the last plan, and the answers to them, were made under other rules for the fields of others
            cache.forget_plan()
            cache.undeclared = undeclared
            cache.holds = inputs.app.holds
        applied = cache.applied.find(inputs.app, target.declared, observation.inventory, target.load_applied)
        # before the claim: one that has to wait may claim nothing
        awaited = self._awaited(inputs.app, observation)
        plan_input = self._inputs(inputs, target, observation, cache, applied, may_claim=not awaited)
        plan = build_plan(plan_input, target.commit.id, cache.plan)
        # most plans need no dry run, and are built once
        if self._confirm(plan_input, inputs, cache, plan):
            # once more, with the answers: the first plan was made without them
            plan_input = self._inputs(inputs, target, observation, cache, applied, may_claim=not awaited)
            plan = build_plan(plan_input, target.commit.id, cache.plan)
        cache.plan = plan
        additions = additions_to(inputs.app, plan, undeclared, observation.schema_of, cache.additions)
        return Planned(inputs, target, observation, plan, undeclared, cache.applied, additions, awaited)

    def _awaited(self, app: Application, observation: Observation) -> frozenset[str]:
        """Return the Applications that have to declare their objects before this one claims its own."""
        # the marks of ten thousand objects are read only while an Application is new, or after a start
        if self._declarations.are_complete:
            return frozenset()
        owners = {ref: owner_of(observation.live.get(ref, {})) for ref in observation.desired}
        return self._declarations.awaited(app.key, {ref: key for ref, key in owners.items() if key != app.key})

    def _confirm(self, plan_input: PlanInput, inputs: ReconcileInput, cache: PlanCache, plan: Plan) -> bool:
        """Dry-run the steps of which only the API server can tell what they do; return whether there were any."""
        # a person who approves must see what the API server will store, defaults included
        is_reviewed = bool(approval_messages(inputs.app, plan, self._rules.policy_of(inputs.app)))
        unsure = set(uncertain(plan, is_reviewed=is_reviewed)) & plan_input.cluster.live.keys()
        # the API server would judge these by the definition that it has now
        redefined = redefined_kinds(plan.writes)
        unsure = {ref for ref in unsure if ref.of not in redefined}
        questions = [question for question in _questions(plan_input, cache, plan) if question.ref in unsure]
        unanswered = [question for question in questions if question.ref not in question.answers]
        # in parallel: a webhook of each kind may take a second
        answers = self._pool.map(lambda question: self._dry_run(question.sent, inputs.app), unanswered)
        # a plan may have ten thousand objects, and nearly none has a question
        outdated = _outdated_kinds(plan_input.cluster.live, inputs.now) if unanswered else frozenset()
        for question, answer in zip(unanswered, answers, strict=True):
            # by the former definition: the write tells, which is tried again until the changed one is in effect
            if isinstance(answer, Rejected) and not is_misfit(answer) and question.ref.of in outdated:
                continue
            version = resource_version_of(plan_input.cluster.live[question.ref])
            question.answers[question.ref] = (question.declared, version, answer, inputs.now)
            if isinstance(answer, Rejected) and answer.refusal.reason == _INVALID:
                # until this version changes, an apply of the same content would be rejected again
                cache.refused[question.ref] = version
        return bool(unanswered)

    def steps_alone(self, planned: Planned, live: Mapping[ObjectRef, Manifest]) -> dict[ObjectRef, Change] | None:
        """
        Return the steps of changed live objects in a plan that does nothing, None where the whole has to be planned.

        Each of them is declared, and does nothing as before.
        """
        app, observation = planned.app, planned.observation
        # an object that two Applications declare needs the whole plan, which names the other one
        is_claimed = bool(self._declarations.declared_elsewhere(app.key, live))
        if is_claimed or planned.undeclared != self._undeclared(app) or not live.keys() <= observation.desired.keys():
            return None
        cluster, options = ClusterState(live, appliers=self._rules.appliers), planned.target.options
        undeclared = planned.undeclared
        plan_input = PlanInput(
            app,
            observation.desired,
            options,
            cluster,
            observation.inventory,
            observation.schema_of,
            undeclared.expected,
            users=undeclared.interactive,
        )
        steps = {ref: step_alone(plan_input, ref) for ref in live}
        done = {ref: step for ref, step in steps.items() if step is not None}
        if len(done) < len(steps):
            return None
        added = {ref: added_fields(app, step, planned.undeclared, observation.schema_of) for ref, step in done.items()}
        # another addition changes the status
        return done if all(added[ref] == planned.additions.get(ref, ()) for ref in done) else None

    def _undeclared(self, app: Application) -> Undeclared:
        policy = self._rules.policy_of(app)
        return Undeclared(app.sync.undeclared_fields or "", policy.expected_managers, policy.users)

    def _inputs(
        self,
        inputs: ReconcileInput,
        target: Target,
        observation: Observation,
        cache: PlanCache,
        applied: Mapping[ObjectRef, Manifest],
        *,
        may_claim: bool,
    ) -> PlanInput:
        cache.dry_runs = _valid_answers(cache.dry_runs, inputs, observation, observation.desired)
        cache.repair_dry_runs = _valid_answers(cache.repair_dry_runs, inputs, observation, applied)
        key = inputs.app.key
        # one that another replica writes claims nothing here: it would be left to both, or to neither
        claims = may_claim and self._is_ours(key)
        cluster = ClusterState(
            observation.live,
            {ref: answer for ref, (_, _, answer, _) in cache.dry_runs.items()},
            self._declarations.declared_elsewhere(key, observation.versions),
            self._rules.appliers,
            observation.unobserved,
            observation.finished,
            {ref: answer for ref, (_, _, answer, _) in cache.repair_dry_runs.items()},
            cache.refused,
            self._declarations.claim(key) if claims else self._declarations.left_to_others(key),
            cache.rejections,
            observation.readers,
        )
        return PlanInput(
            inputs.app,
            observation.desired,
            target.options,
            cluster,
            observation.inventory,
            observation.schema_of,
            cache.undeclared.expected,
            target.replaces,
            applied,
            required_class(self._rules.policy_of(inputs.app)),
            cache.undeclared.interactive,
            is_applied=target.commit.id == inputs.state.applied_to(inputs.app),
        )

    def _dry_run(self, desired: Manifest, app: Application) -> Answer:
        try:
            return self._cluster.apply(desired, manager=app.field_manager, dry_run=True, user=impersonated(app))
        except GroupUnavailable as error:
            return error  # only the write of this object fails
        except ClusterUnavailable:
            raise  # outcome unknown: do not plan on it
        except GitsyncError as error:
            return error


def _outdated_kinds(live: Mapping[ObjectRef, Manifest], now: datetime) -> frozenset[GroupKind]:
    """Return the kinds that an API server may judge by the former state of their definition."""
    definitions = (manifest for ref, manifest in live.items() if ref.kind == CRD.kind and ref.of == CRD)
    return frozenset(defined_kind(manifest) for manifest in definitions if may_be_outdated(manifest, now))


@dataclass(frozen=True, slots=True)
class _Question:
    """What a dry run tells: what becomes of an object, and where its answer is cached, for what is declared of it."""

    ref: ObjectRef
    declared: Manifest
    sent: Manifest
    answers: dict[ObjectRef, Answered]


def _questions(plan_input: PlanInput, cache: PlanCache, plan: Plan) -> Iterator[_Question]:
    """Yield the dry runs of the steps of a plan: of one for each object, and of its repair to an earlier state."""
    asked = set[ObjectRef]()
    for step in (*plan.repairs, *plan.changes):
        declared = plan_input.desired.get(step.ref)
        # a prune sends nothing, and a step whose object is not declared has nothing to be confirmed
        if step.desired is None or declared is None:
            continue
        # a step's desired object has the live values that differ on purpose, which the dry run must not undo
        earlier = plan_input.applied.get(step.ref, declared)
        if step.is_repair and earlier != declared:
            yield _Question(step.ref, earlier, step.desired, cache.repair_dry_runs)
        elif step.ref not in asked:
            asked.add(step.ref)
            yield _Question(step.ref, declared, step.desired, cache.dry_runs)


def _valid_answers(
    answers: Mapping[ObjectRef, Answered],
    inputs: ReconcileInput,
    observation: Observation,
    declared: Mapping[ObjectRef, Manifest],
) -> dict[ObjectRef, Answered]:
    """Return the results of dry runs without outdated ones: same declared object, same live version."""

    def is_valid(ref: ObjectRef, manifest: Manifest, version: str, answer: Answer, asked: datetime) -> bool:
        if isinstance(answer, GitsyncError) and asked != inputs.now:
            is_fresh = isinstance(answer, TerminalError) and abs(inputs.now - asked) < _REFUSED
            if inputs.is_requested or not is_fresh:
                return False
        # by identity: desired objects stay the identical ones until a render or the spec changes
        is_same = declared.get(ref) is manifest
        return is_same and resource_version_of(observation.live.get(ref, {})) == version

    return {ref: entry for ref, entry in answers.items() if is_valid(ref, *entry)}
