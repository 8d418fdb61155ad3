"""Reconcile one Agent: gather facts, advance its rollout, expand it, reconcile its children, and write its status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gitsync.agents.expansion.checks import validation_name
from gitsync.agents.expansion.config import prompt_is_missing
from gitsync.agents.expansion.expand import Layout, expand
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import unnamed_hosts
from gitsync.agents.expansion.revisions import Revision, revision_of, stored_revision
from gitsync.agents.expansion.volumes import as_created, is_stateful
from gitsync.agents.expansion.workloads import without_reset
from gitsync.agents.keys import ABORT, APPROVE, PROMOTE, TRACK_LABEL
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.rollout.advance import Rollout, advance
from gitsync.agents.rollout.observed import CheckResult, Observed, workload_of
from gitsync.agents.rollout.state import RolloutState
from gitsync.agents.rollout.tracks import Track
from gitsync.agents.status import Situation, agent_status, guarded_status, held_status, rejected_status, waiting_status
from gitsync.errors import InvalidInput
from gitsync.kube.times import timestamp
from gitsync.objects.change import Decision
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.operator.backups import BackupKeeper, Backups
from gitsync.operator.child_reconciler import (
    ChildrenCache,
    ChildrenReconciler,
    Desired,
    GateInput,
    Owner,
    ReconciledChildren,
)
from gitsync.operator.facts import FactsReader, Gathered
from gitsync.operator.kinds import child_resources
from gitsync.operator.observations import EvaluationReader, RolloutAnalysis, observed_route
from gitsync.operator.reporting import EventRecorder
from gitsync.plan.tracking import tracking_id
from gitsync.ports import Ports
from gitsync.sync.status.writer import StatusWriter

_HISTORY = 5
"""Number of revisions that are kept besides those in use."""
_WORKLOADS = ("Deployment", "StatefulSet")
_RETRY = 15.0
"""Seconds until an Agent is reconciled again whose children could not be written."""


@dataclass(frozen=True, slots=True)
class _Pass:
    """One reconcile of one Agent."""

    agent: Agent
    manifest: Manifest
    gathered: Gathered
    children: Mapping[ObjectRef, Manifest]
    target: Revision
    stored: Mapping[str, Revision] = field(default_factory=dict)

    @property
    def facts(self) -> Facts:
        return self.gathered.facts


class AgentReconciler:
    """Reconcile Agents, level-based: nothing is kept but their status and their children."""

    def __init__(
        self,
        ports: Ports,
        child_reconciler: ChildrenReconciler,
        facts: FactsReader,
        statuses: StatusWriter,
        analysis: RolloutAnalysis,
    ) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._backups = BackupKeeper(ports.cluster, ports.live)
        self._child_reconciler = child_reconciler
        self._facts = facts
        self._statuses = statuses
        self._analysis = analysis
        self._evaluations = EvaluationReader(ports)
        self._events = EventRecorder(ports.cluster)

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile an Agent; return the seconds until the next reconcile, None when only an event can change it."""
        now = timestamp(self._clock.now().timestamp())
        if metadata_of(manifest).get("deletionTimestamp"):
            return None  # the garbage collector deletes the children
        try:
            agent = parse_agent(manifest)
        except InvalidInput as error:
            generation = int(metadata_of(manifest).get("generation", 0))
            self._write(manifest, rejected_status(generation, str(error), manifest.get("status") or {}, now))
            return None
        run = self._begin(agent, manifest)
        if prompt_is_missing(agent, run.facts):  # Pods without their prompt must not get requests
            before = manifest.get("status") or {}
            self._write(manifest, waiting_status(agent.generation, run.gathered.missing, before, now))
            return None
        return self._finish(run, self._observed(run), cache, now)

    def _begin(self, agent: Agent, manifest: Manifest) -> _Pass:
        gathered = self._facts.read(agent)
        children = self._child_reconciler.children(agent.uid, agent.namespace)
        stored = {one.name: one for child in children.values() if (one := stored_revision(child)) is not None}
        target = revision_of(agent, gathered.facts)
        number = max((one.number for one in stored.values()), default=0) + 1
        target = stored.get(target.name) or replace(target, number=number)
        return _Pass(agent, manifest, gathered, children, target, stored)

    def _finish(self, run: _Pass, seen: Observed, cache: ChildrenCache, now: str) -> float | None:
        before = run.manifest.get("status") or {}
        run = _judged(run, seen)
        state = RolloutState.from_status(before)
        rollout = advance(run.agent.spec, state, seen)
        desired, unserved = self._desired(run, rollout)
        is_new = before.get("observedGeneration") != run.agent.generation
        approved = run.agent.annotations.get(APPROVE, "")
        serving = run.stored.get(state.current, run.target)  # what the change refers to may not exist
        backups = self._backups.plan(run.agent, run.manifest, serving.template, self._clock.now())
        given = Desired(desired, kept=backups.kept)
        done = self._child_reconciler.reconcile(
            _owner(run), given, cache, GateInput(is_new, approved, backups.may_change)
        )
        self._back_up(run, backups, cache, is_guard_wanted=done.is_guarded)
        if done.verdict.decision is not Decision.ALLOWED or done.conflicts:
            self._hold(run, done, before, now)
            return _RETRY if done.conflicts else backups.requeue_after
        if done.is_guarded:
            status = guarded_status(run.agent.generation, backups.before_id, backups.failure, before, now)
            self._write(run.manifest, status)
            return _RETRY
        again = replace(run, children=done.live)
        after = self._observed(again, seen)
        situation = self._situation(again, after, rollout, done, unserved)
        status = agent_status(situation, run.facts, done.live, before, now)
        self._write(run.manifest, {**status, **({"backup": dict(backups.status)} if backups.status else {})})
        if rollout.state != state:
            return 0.0  # the next state may want other children, and no event may follow
        delays = (
            rollout.requeue_after,
            _RETRY if done.failure else None,
            self._analysis.period(run.agent, rollout.state, seen.analysis),
            backups.requeue_after,
        )
        return min((one for one in delays if one is not None), default=None)

    def _observed(self, run: _Pass, before: Observed | None = None) -> Observed:
        """Return what the workloads and checks report now."""
        agent = run.agent
        marks = run.agent.annotations
        live = {
            Track(at(one, "spec", "selector", "matchLabels", TRACK_LABEL)): one
            for ref, one in run.children.items()
            if ref.kind in _WORKLOADS and not metadata_of(one).get("deletionTimestamp")
        }
        checks, message = (before.checks, before.checks_message) if before else _checks(run)
        verdict = before.evaluation if before else self._evaluations.verdict(agent, _job(run))
        if verdict is None and checks is not CheckResult.NONE:
            checks = CheckResult.RUNNING  # the Job ended, and what its Pod reports is not known yet
        state = RolloutState.from_status(run.manifest.get("status") or {})
        return Observed(
            target=run.target.name,
            wanted=_wanted(agent, live.get(state.home)),
            now=self._clock.now(),
            is_autoscaled=agent.spec.autoscaling is not None and not agent.spec.suspend,
            is_stateful=is_stateful(agent),
            workloads={track: workload_of(one, agent.name) for track, one in live.items()},
            route=observed_route(agent, run.children, self._cluster, self._live),
            checks=checks,
            checks_message=str((verdict or {}).get("message") or message),
            evaluation=verdict or {},
            analysis=before.analysis if before else self._analysis.result(agent, state),
            promote=marks.get(PROMOTE, ""),
            abort=marks.get(ABORT, ""),
        )

    def _desired(self, run: _Pass, rollout: Rollout) -> tuple[dict[ObjectRef, Manifest], tuple[str, ...]]:
        """Return the children by ref, and the kinds of others that the cluster does not serve."""
        known = {**run.stored, run.target.name: run.target}
        kept = _kept(known, rollout.state, rollout.layout, run.target)
        children = expand(run.agent, run.facts, rollout.layout, kept)
        served = child_resources(self._cluster)
        found = {ref_of(one): one for one in children if ref_of(one).of in served}
        unserved = tuple(sorted({ref_of(one).kind for one in children if ref_of(one).of not in served}))
        return {ref: self._as_live(run, ref, one) for ref, one in found.items()}, unserved

    def _as_live(self, run: _Pass, ref: ObjectRef, desired: Manifest) -> Manifest:
        """Return a child with the members that the live object decides; a claim may have no owner reference."""
        if ref.kind == "PersistentVolumeClaim":
            resource = self._cluster.resource("", "v1", ref.kind)
            return as_created(desired, self._live.get(resource, ref.namespace, ref.name) if resource else None)
        scaling = run.agent.spec.autoscaling
        return without_reset(desired, run.children.get(ref), scaling.min_replicas if scaling else 0)

    def _back_up(self, run: _Pass, backups: Backups, cache: ChildrenCache, *, is_guard_wanted: bool) -> None:
        """Begin the backups that are due, and delete those that are not kept, as a plan of their own."""
        begun = dict(backups.wanted) | (dict(backups.before) if is_guard_wanted and backups.guard is None else {})
        if begun or backups.expired:
            app = _owner(run).application
            tracked = {ref: _tracked(one, tracking_id(app, ref)) for ref, one in begun.items()}
            self._child_reconciler.reconcile(
                _owner(run), Desired(tracked, is_partial=True, expired=backups.expired), cache
            )

    def _situation(
        self, run: _Pass, seen: Observed, rollout: Rollout, done: ReconciledChildren, unserved: tuple[str, ...]
    ) -> Situation:
        serving = [
            seen.workloads[one.track]
            for one in rollout.layout.placements
            if one.track in seen.workloads and one.serves and rollout.layout.active in (None, one.track)
        ]
        return Situation(
            run.agent,
            seen,
            rollout,
            done.health,
            replicas=sum(one.replicas for one in serving),
            ready=sum(one.ready for one in serving),
            missing=run.gathered.missing,
            hosts=unnamed_hosts(run.agent, run.facts),
            unserved=unserved,
            failure=done.failure,
            references=run.gathered.references,
            conflicts=done.conflicts,
        )

    def _hold(self, run: _Pass, done: ReconciledChildren, before: Mapping[str, Any], now: str) -> None:
        """Report a plan that does not run; the rollout stays where it is."""
        status = held_status(run.agent.generation, done.held_plan, "; ".join(done.conflicts), before, now)
        self._write(run.manifest, status)

    def _write(self, manifest: Manifest, status: dict[str, Any]) -> None:
        if status != (manifest.get("status") or {}):
            self._events.record(manifest, status, self._clock.now())
            self._statuses.write(manifest, status)


def _owner(run: _Pass) -> Owner:
    is_managed = TRACKING_ID in annotations_of(run.manifest)
    return Owner(run.agent.ref, run.agent.uid, run.agent.generation, is_managed)


def _judged(run: _Pass, seen: Observed) -> _Pass:
    """Return the pass whose revision has the verdict of its evaluation, which outlives the status of the Agent."""
    if not seen.evaluation:
        return run
    return replace(run, target=replace(run.target, evaluation=json.dumps(seen.evaluation, sort_keys=True)))


def _tracked(manifest: Manifest, id: str) -> Manifest:
    """Return an object that outlives its Agent with the mark by which a later one knows it."""
    metadata = metadata_of(manifest)
    if metadata.get("ownerReferences"):
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {TRACKING_ID: id}}}


def _wanted(agent: Agent, live: Manifest | None) -> int:
    """Return the number of replicas that serve: of the spec, or as the autoscaler decided."""
    if agent.spec.suspend:
        return 0
    scaling = agent.spec.autoscaling
    if scaling is None:
        return 1 if agent.spec.replicas is None else agent.spec.replicas
    return int(at(live, "spec", "replicas", default=0)) or scaling.min_replicas


def _job(run: _Pass) -> Manifest | None:
    """Return the Job that checks the revision of the spec."""
    name = validation_name(run.target, run.agent)
    return run.children.get(ObjectRef("batch", "Job", run.agent.namespace, name))


def _checks(run: _Pass) -> tuple[CheckResult, str]:
    """Return the result of the Job that checks the revision of the spec."""
    job = _job(run)
    if job is None:
        return CheckResult.NONE, ""
    for condition in at(job, "status", "conditions", default=[]):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            is_passed = condition["type"] == "Complete"
            return CheckResult.PASSED if is_passed else CheckResult.FAILED, str(condition.get("message", ""))
    return CheckResult.RUNNING, ""


def _kept(known: Mapping[str, Revision], state: RolloutState, layout: Layout, target: Revision) -> dict[str, Revision]:
    """Return the revisions in use, and the newest others, by name."""
    used = {target.name, state.current, state.last_good, state.goal, state.old, layout.checked}
    used |= {placement.revision for placement in layout.placements}
    others = sorted((one for one in known.values() if one.name not in used), key=lambda one: -one.number)[:_HISTORY]
    kept = used | {one.name for one in others}
    return {name: one for name, one in sorted(known.items()) if name in kept}
