"""Planning: what a sync would do, confirmed by dry runs where only the API server can be sure."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from datetime import datetime, timedelta

from gitsync.apply.change import impersonated
from gitsync.errors import ClusterUnavailable, GitsyncError, TerminalError
from gitsync.objects.change import Plan
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, resource_version_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import ClusterState, build_plan, uncertain
from gitsync.ports import Cluster
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.observe import Observation
from gitsync.sync.reconcile import FailureReason, Reconcile
from gitsync.sync.state_store import StateStore

Answer = Manifest | GitsyncError
_REFUSED = timedelta(seconds=15)
"""So long a refusal of a dry run is taken for the answer to the next one."""


class Planner:
    """
    Make plans. Answers to dry runs are remembered for exactly the objects they were about.

    A refusal is asked about again after a while, since what the cluster allows may change, or when a person asks.
    """

    def __init__(self, cluster: Cluster, state: StateStore, pool: Executor) -> None:
        self._cluster = cluster
        self._state = state
        self._pool = pool

    def plan(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Give the turn its plan; raise ClusterUnavailable when a dry run that is needed gets no answer."""
        run.stage = FailureReason.PLAN
        observation = run.observation
        assert observation is not None
        plan = self._make(run, cache, observation)
        unsure = set(uncertain(plan)) - cache.dry_runs.keys()
        # a step's desired object has the live values that differ on purpose, which the dry run must not undo
        steps = {step.ref: step.desired for step in plan.changes if step.ref in unsure and step.ref in observation.live}
        if steps:
            user = impersonated(run.app)
            answers = self._pool.map(lambda desired: self._dry_run(desired or {}, user), steps.values())
            for ref, answer in zip(steps, answers, strict=True):
                desired, version = observation.desired[ref], resource_version_of(observation.live[ref])
                cache.dry_runs[ref] = (desired, version, answer, run.now)
            plan = self._make(run, cache, observation)
        cache.plan = run.plan = plan

    def _make(self, run: Reconcile, cache: ReconcileCache, observation: Observation) -> Plan:
        claims = self._state.declared_elsewhere(run.app.key, observation.versions)
        return build_plan(
            run.app,
            run.target_commit.id if run.target_commit else "",
            observation.desired,
            ClusterState(observation.live, _remembered(run, cache, observation), claims),
            run.inventory,
            observation.schema_of,
            cache.plan,
        )

    def _dry_run(self, desired: Manifest, user: str) -> Answer:
        try:
            return self._cluster.apply(desired, manager=FIELD_MANAGER, dry_run=True, user=user)
        except ClusterUnavailable:
            raise  # then nobody knows, and nothing may be concluded
        except GitsyncError as error:
            return error


def _remembered(run: Reconcile, cache: ReconcileCache, observation: Observation) -> Mapping[ObjectRef, Answer]:
    """Return the answers to earlier dry runs that still hold: same desired object, same live version."""

    def holds(ref: ObjectRef, desired: Manifest, version: str, answer: Answer, asked: datetime) -> bool:
        if isinstance(answer, GitsyncError) and asked != run.now:
            is_fresh = isinstance(answer, TerminalError) and abs(run.now - asked) < _REFUSED
            if run.is_requested or not is_fresh:
                return False
        is_same = observation.desired.get(ref) is desired
        return is_same and resource_version_of(observation.live.get(ref, {})) == version

    cache.dry_runs = {ref: entry for ref, entry in cache.dry_runs.items() if holds(ref, *entry)}
    return {ref: answer for ref, (_, _, answer, _) in cache.dry_runs.items()}
