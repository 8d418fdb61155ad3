"""Plan what a sync would do, confirmed by dry runs where only the API server can decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime, timedelta

from gitsync.apply.change import impersonated
from gitsync.errors import ClusterUnavailable, GitsyncError, GroupUnavailable, TerminalError
from gitsync.gate.approvals import approval_messages
from gitsync.gate.policy import Policy
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Plan
from gitsync.objects.manifest import Manifest, resource_version_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import build_plan, step_alone, uncertain
from gitsync.plan.ownership import APPLIERS
from gitsync.plan.steps import ClusterState, PlanInput
from gitsync.plan.undeclared import REPORT, Undeclared
from gitsync.ports import Cluster
from gitsync.state.declarations import Declarations
from gitsync.sync.cache import PlanCache
from gitsync.sync.input import ReconcileInput, Target
from gitsync.sync.observe import Observation
from gitsync.sync.operation import describe_drift

Answer = Manifest | GitsyncError
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
    def drift(self) -> tuple[tuple[ObjectRef, str], ...]:
        """The objects that differ although Git did not change: field, values, manager and time."""
        if not self.is_applied:
            return ()
        return tuple((change.ref, describe_drift(change)) for change in self.plan.writes)


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
        appliers: frozenset[str] = APPLIERS,
        policy_of: Callable[[Application], Policy] = lambda app: Policy(),
    ) -> None:
        self._cluster = cluster
        self._declarations = declarations
        self._pool = pool
        self._appliers = appliers
        self._policy_of = policy_of

    def plan(self, inputs: ReconcileInput, target: Target, observation: Observation, cache: PlanCache) -> Planned:
        """Return the plan; raise ClusterUnavailable when a required dry run gets no response."""
        undeclared = self._undeclared(inputs.app)
        if cache.undeclared != undeclared:
            cache.plan = None
            cache.undeclared = undeclared
        plan = self._build(inputs, target, observation, cache)
        is_reviewed = bool(approval_messages(inputs.app, plan, self._policy_of(inputs.app)))
        unsure = set(uncertain(plan, is_reviewed=is_reviewed)) - cache.dry_runs.keys()
        # a step's desired object has the live values that differ on purpose, which the dry run must not undo
        steps = {step.ref: step.desired for step in plan.changes if step.ref in unsure and step.ref in observation.live}
        if steps:
            answers = self._pool.map(lambda desired: self._dry_run(desired or {}, inputs.app), steps.values())
            for ref, answer in zip(steps, answers, strict=True):
                desired = observation.desired[ref]
                version = resource_version_of(observation.live[ref])
                cache.dry_runs[ref] = (desired, version, answer, inputs.now)
            plan = self._build(inputs, target, observation, cache)
        cache.plan = plan
        return Planned(inputs, target, observation, plan, undeclared)

    def steps_alone(self, planned: Planned, live: Mapping[ObjectRef, Manifest]) -> dict[ObjectRef, Change] | None:
        """
        Return the steps of changed live objects in a plan that does nothing, None where the whole has to be planned.

        Each of them is declared, and does nothing as before.
        """
        app = planned.app
        observation = planned.observation
        is_claimed = bool(self._declarations.declared_elsewhere(app.key, live))
        if is_claimed or planned.undeclared != self._undeclared(app) or not live.keys() <= observation.desired.keys():
            return None
        cluster = ClusterState(live, appliers=self._appliers)
        options = planned.target.options
        expected = planned.undeclared.expected
        plan_input = PlanInput(
            app, observation.desired, options, cluster, observation.inventory, observation.schema_of, expected
        )
        steps = {ref: step_alone(plan_input, ref) for ref in live}
        done = {ref: step for ref, step in steps.items() if step is not None}
        return done if len(done) == len(steps) else None

    def _undeclared(self, app: Application) -> Undeclared:
        return Undeclared(app.sync.undeclared_fields or "", self._policy_of(app).expected_managers)

    def _build(self, inputs: ReconcileInput, target: Target, observation: Observation, cache: PlanCache) -> Plan:
        claims = self._declarations.declared_elsewhere(inputs.app.key, observation.versions)
        answers = _cached_answers(inputs, observation, cache)
        cluster_state = ClusterState(
            observation.live, answers, claims, self._appliers, observation.unobserved, observation.finished
        )
        plan_input = PlanInput(
            inputs.app,
            observation.desired,
            target.options,
            cluster_state,
            observation.inventory,
            observation.schema_of,
            cache.undeclared.expected,
            target.replaces,
        )
        return build_plan(plan_input, target.commit.id, cache.plan)

    def _dry_run(self, desired: Manifest, app: Application) -> Answer:
        try:
            return self._cluster.apply(desired, manager=app.field_manager, dry_run=True, user=impersonated(app))
        except GroupUnavailable as error:
            return error  # only the write of this object fails
        except ClusterUnavailable:
            raise  # outcome unknown: do not plan on it
        except GitsyncError as error:
            return error


def _cached_answers(inputs: ReconcileInput, observation: Observation, cache: PlanCache) -> Mapping[ObjectRef, Answer]:
    """Drop outdated dry-run results from the cache and return the others: same desired object, same live version."""

    def is_valid(ref: ObjectRef, desired: Manifest, version: str, answer: Answer, asked: datetime) -> bool:
        if isinstance(answer, GitsyncError) and asked != inputs.now:
            is_fresh = isinstance(answer, TerminalError) and abs(inputs.now - asked) < _REFUSED
            if inputs.is_requested or not is_fresh:
                return False
        is_same = observation.desired.get(ref) is desired
        return is_same and resource_version_of(observation.live.get(ref, {})) == version

    cache.dry_runs = {ref: entry for ref, entry in cache.dry_runs.items() if is_valid(ref, *entry)}
    return {ref: answer for ref, (_, _, answer, _) in cache.dry_runs.items()}
