"""Reconcile one Agent: gather facts, advance its rollout, expand it, reconcile its children, and write its status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gitsync.agents.budget import BudgetState, budget_conditions, throttled
from gitsync.agents.expansion.access import autoscaler
from gitsync.agents.expansion.checks import checks_hash
from gitsync.agents.expansion.config import PROMPT_FILE, prompt_is_missing
from gitsync.agents.expansion.expand import Layout, expand, sharing_of
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.expansion.network import unnamed_hosts
from gitsync.agents.expansion.revisions import Revision, stored_revision
from gitsync.agents.expansion.sharing import needed_objects, with_live_needs
from gitsync.agents.expansion.volumes import as_created
from gitsync.agents.expansion.workloads import live_placement, without_reset, workload
from gitsync.agents.keys import STOPPED
from gitsync.agents.model.agent import Agent, parse_agent
from gitsync.agents.rollout.advance import advance
from gitsync.agents.rollout.context import Rollout
from gitsync.agents.rollout.observed import CheckResult, Observed
from gitsync.agents.rollout.state import RolloutState
from gitsync.agents.status import (
    Situation,
    agent_status,
    changed_status,
    guarded_status,
    held_status,
    probe_conditions,
    rejected_status,
    stopped_status,
    waiting_status,
)
from gitsync.agents.waves import DEFAULT_LIMIT, WaveLimit
from gitsync.errors import InvalidInput
from gitsync.kube.times import timestamp
from gitsync.objects.change import Action, Change, Decision
from gitsync.objects.conditions import set_conditions
from gitsync.objects.health import STOPPED_BY_BUDGET
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest, at, metadata_of
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
from gitsync.operator.contracts import ContractKeeper, ContractState, ProbedAgent
from gitsync.operator.facts import FactsReader, Gathered
from gitsync.operator.kinds import child_resources
from gitsync.operator.observations import (
    CREATION_SECONDS,
    BudgetReader,
    CheckVerdict,
    RolloutAnalysis,
    RolloutObserver,
)
from gitsync.operator.ownership import Ownership
from gitsync.operator.reporting import EventRecorder
from gitsync.operator.waves import WaveKeeper, WaveState
from gitsync.plan.tracking import tracking_id
from gitsync.ports import MetricsProvider, Ports
from gitsync.sync.status.writer import StatusWriter

_HISTORY = 5
"""Number of revisions that are kept besides those in use."""
_RETRY = 15.0
"""Seconds until an Agent is reconciled again whose children could not be written."""


_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")
_UNCONFIRMED = 1.0
"""Seconds until a held Agent is reconciled again whose Application has not stored its uid yet."""


@dataclass(frozen=True, slots=True)
class _AgentInput:
    """One Agent in one reconcile: its spec, what it depends on, its live children and its revisions."""

    agent: Agent
    manifest: Manifest
    gathered: Gathered
    children: Mapping[ObjectRef, Manifest]
    target: Revision
    """The revision that the spec describes."""
    waves: WaveState
    stored: Mapping[str, Revision] = field(default_factory=dict)
    """The revisions that are kept in the cluster, by name."""
    manager: str = ""
    """The key of the Application that applied the Agent from Git."""
    budget: BudgetState | None = None
    budget_delay: float | None = None
    """The seconds until the budget is read again, None without one."""

    @property
    def previous(self) -> Mapping[str, Any]:
        """The status of the last reconcile, with the waves of this one."""
        status: Mapping[str, Any] = self.manifest.get("status") or {}
        return {**status, "wave": dict(self.waves.taken)} if self.waves.taken else status

    @property
    def state(self) -> RolloutState:
        """What the rollout remembers."""
        return RolloutState.from_status(self.previous)

    @property
    def facts(self) -> Facts:
        return self.gathered.facts

    @property
    def exceeded(self) -> str:
        """The action of a budget that is exceeded, empty where none is."""
        budget = self.agent.spec.budget
        return budget.on_exceeded if budget is not None and self.budget is not None and self.budget.is_exceeded else ""

    @property
    def scaled(self) -> _AgentInput:
        """The same with no more replicas than its budget leaves, which makes no other revision."""
        budget = self.agent.spec.budget
        if budget is None or self.exceeded != "Throttle":
            return self
        return replace(self, agent=replace(self.agent, spec=throttled(self.agent.spec, budget.throttled_replicas)))

    @property
    def owner(self) -> Owner:
        return Owner(self.agent.ref, self.agent.uid, self.agent.generation, self.manager)


@dataclass(frozen=True, slots=True)
class _Children:
    """The children to have, live ones that stay as they are, and the kinds that the cluster does not serve."""

    objects: Mapping[ObjectRef, Manifest]
    untouched: frozenset[ObjectRef] = frozenset()
    data: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    """Live claims that no revision in use has; they are deleted by a plan of their own."""
    unserved: tuple[str, ...] = ()


class AgentReconciler:
    """Reconcile Agents, level-based: nothing is kept but their status and their children."""

    def __init__(
        self,
        ports: Ports,
        child_reconciler: ChildrenReconciler,
        statuses: StatusWriter,
        metrics: MetricsProvider | None,
        ownership: Ownership,
        wave_limit: WaveLimit = DEFAULT_LIMIT,
    ) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._backups = BackupKeeper(ports.cluster, ports.live)
        self._child_reconciler = child_reconciler
        self._facts = FactsReader(ports.cluster, ports.live)
        self._waves = WaveKeeper(self._facts, ports.clock, wave_limit)
        self._statuses = statuses
        self._analysis = RolloutAnalysis(metrics)
        self._budgets = BudgetReader(metrics)
        self._observer = RolloutObserver(ports, self._analysis)
        self._contracts = ContractKeeper(ports)
        self._ownership = ownership
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
        refusal = self._ownership.refusal(manifest)
        if refusal:
            self._write(manifest, changed_status(manifest, refusal, now))
            return _UNCONFIRMED
        input = self._read(agent, manifest)
        contract = self._compare_contract(input, cache)
        # Before anything else of the spec: an Agent has to stop also where its plan would wait for an approval.
        reason = _stop_reason(input, contract)
        stop = self._stop(input, cache) if reason or agent.spec.suspend else None
        if stop is not None and reason:
            return self._report_stop(input, stop, contract, now)
        input = input.scaled
        if input.exceeded == "Throttle":
            self._throttle(input, cache)
        if prompt_is_missing(agent, input.facts):  # Pods without their prompt must not get requests
            status = waiting_status(agent.generation, input.gathered.missing, input.previous, now)
            self._write(manifest, _with_contract(status, input, contract, now))
            return input.budget_delay
        return self._advance(input, contract, cache, now)

    def _compare_contract(self, input: _AgentInput, cache: ChildrenCache) -> ContractState:
        """Begin the probes that are due, as a plan of their own, and return what the others found."""
        serving = input.stored.get(input.state.current)
        probed = ProbedAgent(input.agent, input.facts, input.target, serving, input.children, input.previous)
        contract = self._contracts.plan(probed, self._clock.now())
        if contract.wanted or contract.expired:
            desired = Desired(contract.wanted, is_partial=True, expired=contract.expired)
            self._child_reconciler.reconcile(input.owner, desired, cache)
        return contract

    def _read(self, agent: Agent, manifest: Manifest) -> _AgentInput:
        previous = manifest.get("status") or {}
        gathered = self._facts.read(agent, previous)
        children = self._child_reconciler.children(agent.uid, agent.namespace)
        revisions = [revision for child in children.values() if (revision := stored_revision(child)) is not None]
        stored = {revision.name: revision for revision in revisions}
        is_known = previous.get("observedGeneration") == agent.generation
        observed = str(previous.get("updateRevision", "")) if is_known else ""
        waves = self._waves.advance(agent, manifest, gathered.facts, stored, observed)
        gathered = replace(gathered, facts=waves.facts)
        # Only a proven manager: by a mark alone, any user who may write the Agent could skip the gate.
        manager = self._ownership.manager(manifest)
        budget, delay = self._budgets.judge(
            agent, gathered.facts.prices, previous.get("budget") or {}, self._clock.now()
        )
        return _AgentInput(agent, manifest, gathered, children, waves.target, waves, stored, manager, budget, delay)

    def _advance(self, input: _AgentInput, contract: ContractState, cache: ChildrenCache, now: str) -> float | None:
        """Bring the children to the next state of the rollout, and report it."""
        observed = self._observer.observe(input.agent, input.facts, input.children, input.target, input.state)
        observed = replace(observed, held=contract.held, pending=contract.pending)
        # The verdict is stored with the revision in the same pass, before the Job that has it can disappear.
        input = _with_verdict(input, observed)
        rollout = advance(input.agent.spec, input.state, observed)
        children = self._desired(input, rollout, contract.kept)
        backups = self._plan_backups(input)
        reconciled = self._reconcile_children(input, children, backups, cache)
        # Always, also where the plan is held: a scheduled copy does not depend on a change.
        self._back_up(input, backups, cache, is_guard_wanted=reconciled.is_guarded)
        if reconciled.verdict.decision is not Decision.ALLOWED or reconciled.conflicts:
            self._hold(input, reconciled, contract, backups, now)
            # Its Application has applied it, but the inventory with its uid follows in a write to the status.
            if self._ownership.is_unconfirmed(input.manifest):
                return _UNCONFIRMED
            return _RETRY if reconciled.conflicts else _first(backups.requeue_after, input.budget_delay)
        if reconciled.is_guarded:
            status = guarded_status(input.agent.generation, backups.before_id, backups.failure, input.previous, now)
            self._write(input.manifest, {**_with_contract(status, input, contract, now), **_backup_status(backups)})
            return _RETRY
        # The children were just written: their workloads are read again, so that the status is not one pass late.
        refreshed = self._observer.refresh(observed, input.agent, reconciled.live, input.state)
        situation = replace(
            _situation(input, refreshed, rollout, reconciled, children.unserved),
            contract=contract.contract,
            behaviour=contract.behaviour,
            budget=input.budget,
            waits=input.waves.waits,
            expansion=input.waves.expansion,
        )
        status = agent_status(situation, input.facts, reconciled.live, input.previous, now)
        status = input.waves.status(input.manifest, status)
        removal = self._remove_data(input, children, rollout, backups, cache)
        self._write(input.manifest, {**status, **_backup_status(backups), **removal})
        if rollout.state != input.state:
            return 0.0  # the next state may want other children, and no event may follow
        return _first(
            rollout.requeue_after,
            _RETRY if reconciled.failure else None,
            self._analysis.period(input.agent, rollout.state, observed.analysis),
            backups.requeue_after,
            contract.requeue_after,
            input.budget_delay,
            *(turn.requeue_after for turn in input.waves.waits),
            # Without a Pod no event would come before the deadline of the Job.
            CREATION_SECONDS if observed.checks is CheckResult.RUNNING else None,
        )

    def _stop(self, input: _AgentInput, cache: ChildrenCache) -> ReconciledChildren:
        """
        End the Pods of an Agent that is to run none, as a plan of its own.

        It waits for no approval, backup or other part of the spec: it is the emergency stop.
        """
        stopped, unknown = _resized(input, 0)
        # One whose revision is not kept any more cannot be applied as it is, and goes; an autoscaler would start Pods.
        expired = unknown | {ref: child for ref, child in input.children.items() if ref.kind in _SCALERS}
        desired = Desired(stopped, is_partial=True, expired=expired)
        return self._child_reconciler.reconcile(input.owner, desired, cache)

    def _throttle(self, input: _AgentInput, cache: ChildrenCache) -> None:
        """Bring the Pods of an Agent to the number that its budget leaves, as a plan that waits for no approval."""
        spec = input.agent.spec
        if spec.autoscaling is not None:
            scalers = {ref_of(scaler): scaler for scaler in autoscaler(input.agent, input.state.home)}
            resized = {ref: scaler for ref, scaler in scalers.items() if ref in input.children}
        else:
            resized, _ = _resized(input, 1 if spec.replicas is None else spec.replicas)
        self._child_reconciler.reconcile(input.owner, Desired(resized, is_partial=True), cache)

    def _report_stop(
        self, input: _AgentInput, stop: ReconciledChildren, contract: ContractState, now: str
    ) -> float | None:
        """Report that an Agent is stopped; its rollout stays where it is, and continues with the Agent."""
        workloads = [manifest for ref, manifest in stop.live.items() if ref.kind in ("Deployment", "StatefulSet")]
        replicas = sum(int(at(manifest, "status", "replicas", default=0)) for manifest in workloads)
        status = stopped_status(input.agent.generation, _stop_reason(input, contract), replicas, input.previous, now)
        self._write(input.manifest, _with_contract(status, input, contract, now))
        return _RETRY if stop.failure else _first(contract.requeue_after, input.budget_delay)

    def _remove_data(
        self, input: _AgentInput, children: _Children, rollout: Rollout, backups: Backups, cache: ChildrenCache
    ) -> dict[str, Any]:
        """
        Delete the claims that no revision in use has, once they are approved for themselves; return what waits.

        What is deleted cannot be rolled back, so it is apart from the plan that brings a new revision, and needs an
        approval of its own.
        """
        # While a rollout runs, the revisions that need data still change: one plan follows at its end.
        if rollout.state.goal or not children.data:
            return {}
        # What an Application permitted of the spec does not include the loss of data.
        owner = replace(input.owner, is_permitted=False)
        gate = GateInput(is_new=True, is_safe=backups.may_change)
        # Partial: the other children are not part of this plan, and are neither compared nor deleted.
        removed = self._child_reconciler.reconcile(
            owner, Desired({}, is_partial=True, expired=children.data), cache, gate
        )
        self._back_up(input, backups, cache, is_guard_wanted=removed.is_guarded)
        return {"plan": removed.held_plan} if removed.held_plan else {}

    def _reconcile_children(
        self, input: _AgentInput, children: _Children, backups: Backups, cache: ChildrenCache
    ) -> ReconciledChildren:
        gate = GateInput(
            # A new generation passes the gate once; what follows continues or restores what was allowed.
            is_new=input.previous.get("observedGeneration") != input.agent.generation,
            is_safe=backups.may_change,
            spec_change=_spec_change(input),
        )
        return self._child_reconciler.reconcile(
            input.owner,
            Desired(children.objects, kept=backups.kept | children.untouched, as_live=partial(_as_live, input.agent)),
            cache,
            gate,
        )

    def _plan_backups(self, input: _AgentInput) -> Backups:
        # Copies are made with the template that serves: what the change refers to may not exist.
        serving = input.stored.get(input.state.current, input.target)
        return self._backups.plan(input.agent, input.manifest, serving.template, self._clock.now())

    def _desired(self, input: _AgentInput, rollout: Rollout, probes: frozenset[ObjectRef]) -> _Children:
        """Return the children to have, besides the Jobs of probes, which stay as they are."""
        known = {**input.stored, input.target.name: input.target}
        kept = _kept(known, rollout.state, rollout.layout, input.target)
        in_use = rollout.state.in_use | {placement.revision for placement in rollout.layout.placements}
        # Shared children have to satisfy every revision that has Pods, not only the one of the spec.
        sharing, unknown = sharing_of(input.agent, input.target, rollout.state.current, known, in_use)
        facts = self._facts.reached_by(sharing.all, input.facts)
        children = {ref_of(child): child for child in expand(sharing, facts, rollout.layout, kept)}
        untouched: frozenset[ObjectRef] = frozenset()
        if unknown:
            untouched = needed_objects(children, input.children)
            children = with_live_needs(children, input.children)
        served = child_resources(self._cluster)
        unserved = {ref.kind for ref in children if ref.of not in served}
        # A kind that is not served would fail the whole plan; it is reported in the status instead.
        desired = {ref: child for ref, child in children.items() if ref.of in served}
        data = {
            ref: child
            for ref, child in input.children.items()
            if ref.kind == "PersistentVolumeClaim" and ref not in desired and ref not in untouched
        }
        return _Children(desired, untouched | data.keys() | probes, data, tuple(sorted(unserved)))

    def _back_up(self, input: _AgentInput, backups: Backups, cache: ChildrenCache, *, is_guard_wanted: bool) -> None:
        """Begin the backups that are due, and delete those that are not kept, as a plan of their own."""
        wanted = dict(backups.wanted)
        # Once begun it is known by its label, and is not begun a second time in the next pass.
        if is_guard_wanted and backups.guard is None:
            wanted |= dict(backups.before)
        if not wanted and not backups.expired:
            return
        app = input.owner.application
        tracked = {ref: _tracked(copy, tracking_id(app, ref)) for ref, copy in wanted.items()}
        self._child_reconciler.reconcile(input.owner, Desired(tracked, is_partial=True, expired=backups.expired), cache)

    def _hold(
        self, input: _AgentInput, reconciled: ReconciledChildren, contract: ContractState, backups: Backups, now: str
    ) -> None:
        """Report a plan that does not run; the rollout stays where it is."""
        conflicts = "; ".join(reconciled.conflicts)
        status = held_status(input.agent.generation, reconciled.held_plan, conflicts, input.previous, now)
        self._write(input.manifest, {**_with_contract(status, input, contract, now), **_backup_status(backups)})

    def _write(self, manifest: Manifest, status: dict[str, Any]) -> None:
        # An equal status sends no request and no Event.
        if status != (manifest.get("status") or {}):
            self._events.record(manifest, status, self._clock.now())
            self._statuses.write(manifest, status)


def _with_contract(status: dict[str, Any], input: _AgentInput, contract: ContractState, now: str) -> dict[str, Any]:
    """Return a status that continues the one before, with what the probes and the budget say."""
    computed = probe_conditions(input.agent, contract.contract, contract.behaviour)
    computed += budget_conditions(input.agent.spec.budget, input.budget)
    conditions = set_conditions(status["conditions"], computed, input.agent.generation, now)
    budget = {"budget": dict(input.budget.status)} if input.budget is not None else {}
    return {**status, **contract.status, **budget, "conditions": conditions}


def _stop_reason(input: _AgentInput, contract: ContractState) -> str:
    """Return why all Pods end and how they run again, empty where they run."""
    if by := input.agent.annotations.get(STOPPED, ""):
        return f"stopped by {by}; gitsync agent start runs it again"
    if contract.stopped:
        return f"stopped by {contract.stopped}; a lock that has the change runs it again"
    if input.exceeded == "Suspend" and input.budget is not None:
        return f"{STOPPED_BY_BUDGET}: {input.budget.message}; it runs again tomorrow in UTC, or with a higher limit"
    return ""


def _resized(input: _AgentInput, replicas: int) -> tuple[dict[ObjectRef, Manifest], dict[ObjectRef, Manifest]]:
    """Return the workloads that have more replicas with this number, and those whose revision is not kept any more."""
    workloads = {
        ref: manifest
        for ref, manifest in input.children.items()
        if ref.kind in ("Deployment", "StatefulSet") and int(at(manifest, "spec", "replicas", default=1)) > replicas
    }
    known = {**input.stored, input.target.name: input.target}
    # Of the revision that each workload has now: another number must not begin an update.
    resized = {
        ref: workload(input.agent, replace(placement, replicas=replicas), known[placement.revision])
        for ref, manifest in workloads.items()
        if (placement := live_placement(manifest, input.agent.name)).revision in known
    }
    return resized, {ref: manifest for ref, manifest in workloads.items() if ref not in resized}


def _first(*delays: float | None) -> float | None:
    """Return the first of several delays: several things may be awaited at once."""
    return min((delay for delay in delays if delay is not None), default=None)


def _situation(
    input: _AgentInput,
    observed: Observed,
    rollout: Rollout,
    reconciled: ReconciledChildren,
    unserved: tuple[str, ...],
) -> Situation:
    """Return what the status is computed from."""
    serving = [
        observed.workloads[placement.track]
        for placement in rollout.layout.placements
        if placement.track in observed.workloads
        and placement.serves
        and rollout.layout.active in (None, placement.track)
    ]
    return Situation(
        agent=input.agent,
        observed=observed,
        rollout=rollout,
        health=reconciled.health,
        replicas=sum(workload.replicas for workload in serving),
        ready=sum(workload.ready for workload in serving),
        missing=input.gathered.missing,
        hosts=unnamed_hosts(input.agent, input.facts),
        unserved=unserved,
        failure=reconciled.failure,
        references=input.gathered.references,
        conflicts=reconciled.conflicts,
    )


def _with_verdict(input: _AgentInput, observed: Observed) -> _AgentInput:
    """Return the input whose revision has the verdict of its checks, which outlives the Job and the status."""
    target = input.target
    # Only an end is stored: a running check has no verdict that could outlive its Job.
    if observed.checks in (CheckResult.PASSED, CheckResult.FAILED):
        checks = checks_hash(input.agent, target, input.facts)
        verdict = CheckVerdict(checks, observed.checks, observed.checks_message)
        target = replace(target, verdict=verdict.to_json())
    if observed.evaluation:
        # Sorted: the annotation is compared as text.
        target = replace(target, evaluation=json.dumps(observed.evaluation, sort_keys=True))
    return replace(input, target=target)


def _spec_change(input: _AgentInput) -> Change | None:
    """Return the step from the spec that was permitted last to the one of now, None where the former is not known."""
    permitted = input.stored.get(str(input.previous.get("updateRevision", "")))
    if permitted is None or permitted.spec is None:
        return None
    spec = dict(permitted.spec)
    if at(spec, "prompt", "text") is not None:
        # A kept spec has no prompt: its text is in the configuration of the revision.
        spec["prompt"] = {**spec["prompt"], "text": permitted.config.get(PROMPT_FILE, "")}
    spec = _without_own_plans(spec, input.agent.declared)
    # Without a change of the spec, the children are judged alone.
    if spec == input.agent.declared:
        return None
    live = {**input.manifest, "spec": spec}
    return Change(input.agent.ref, Action.UPDATE, desired=input.manifest, live=live)


def _without_own_plans(permitted: dict[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the permitted spec without what plans of their own carry out: a stop, and the deletion of volumes."""
    spec = dict(permitted)
    # A stop waits for no approval, so it must not hold what else the spec changes either.
    if declared.get("suspend") is True:
        spec["suspend"] = True
    volumes = at(spec, "state", "volumes")
    if volumes:
        names = {volume.get("name") for volume in at(declared, "state", "volumes") or ()}
        # Removed volumes keep their claims here: only the plan that deletes them asks whether they may be lost.
        spec["state"] = {**spec["state"], "volumes": [volume for volume in volumes if volume.get("name") in names]}
    return spec


def _backup_status(backups: Backups) -> dict[str, Any]:
    return {"backup": dict(backups.status)} if backups.status else {}


def _tracked(manifest: Manifest, id: str) -> Manifest:
    """Return an object that outlives its Agent with the mark by which a later one knows it."""
    metadata = metadata_of(manifest)
    if metadata.get("ownerReferences"):
        return manifest
    return {**manifest, "metadata": {**metadata, "annotations": {TRACKING_ID: id}}}


def _kept(known: Mapping[str, Revision], state: RolloutState, layout: Layout, target: Revision) -> dict[str, Revision]:
    """Return the revisions in use, and the newest others, by name."""
    used = {target.name, state.current, state.last_good, state.goal, state.old, layout.checked}
    used |= {placement.revision for placement in layout.placements}
    unused = [revision for revision in known.values() if revision.name not in used]
    # By number and not by time: a clock that was set back must not make a revision the oldest.
    newest = sorted(unused, key=lambda revision: -revision.number)[:_HISTORY]
    kept = used | {revision.name for revision in newest}
    return {name: revision for name, revision in sorted(known.items()) if name in kept}


def _as_live(agent: Agent, ref: ObjectRef, desired: Manifest, live: Manifest | None) -> Manifest:
    """Return a child with the members that the live object decides."""
    if ref.kind == "PersistentVolumeClaim":
        return as_created(desired, live)
    scaling = agent.spec.autoscaling
    return without_reset(desired, live, scaling.min_replicas if scaling else 0)
