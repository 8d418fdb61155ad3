"""The status of an Agent: its conditions, and the phase that is derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitsync.agents.budget import BUDGET_EXCEEDED, BudgetState, budget_conditions
from gitsync.agents.contract.series import ProbeResult
from gitsync.agents.expansion.config import tool_url, url_of
from gitsync.agents.expansion.election import lease_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.keys import AGENT_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.context import Rollout
from gitsync.agents.rollout.observed import CheckResult, Observed
from gitsync.agents.rollout.state import RolloutStage
from gitsync.agents.waves import WaveTurn
from gitsync.objects.conditions import READY, Condition, set_conditions
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef

RECONCILING = "Reconciling"
STALLED = "Stalled"
ACCEPTED = "Accepted"
REFERENCES = "ReferencesResolved"
CONTRACT_DRIFT = "ContractDrift"
OUTDATED = "Outdated"
"""Only there while a change waits for its turn in a wave."""
_LONGEST_MESSAGE = 1024
_SCALERS = ("HorizontalPodAutoscaler", "ScaledObject")


@dataclass(frozen=True, slots=True)
class Situation:
    """
    What the conditions of an Agent are computed from.

    ``missing`` are references that lead nowhere, ``hosts`` those that a NetworkPolicy cannot name, ``unserved`` the
    kinds of children that the cluster does not serve, ``held`` is why a plan waits, ``failure`` why a write failed.
    """

    agent: Agent
    observed: Observed
    rollout: Rollout
    health: Mapping[ObjectRef, HealthStatus]
    replicas: int = 0
    ready: int = 0
    missing: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    held: str = ""
    failure: str = ""
    references: int = 0
    conflicts: tuple[str, ...] = ()
    contract: Mapping[str, Any] = field(default_factory=dict)
    behaviour: Mapping[str, Any] = field(default_factory=dict)
    """The results of the last comparison with the lock, and of the cases for what serves; empty without one."""
    budget: BudgetState | None = None
    waits: tuple[WaveTurn, ...] = ()
    """Waves in which it is not the turn of the Agent."""
    expansion: Mapping[str, Any] = field(default_factory=dict)
    """The version of the expansion of ``revision``, the newest that is ``available``, and its ``changes`` of Pods."""


def conditions(situation: Situation) -> tuple[Condition, ...]:
    """Return the conditions that apply to the Agent; a part that the spec does not have has none."""
    ready = _ready(situation)
    stalled = _stalled(situation)
    computed = (
        Condition(ACCEPTED, "True", "Valid"),
        _references(situation),
        _storage(situation),
        _cache(situation),
        _validated(situation),
        _scaling(situation),
        _network(situation),
        _traffic(situation),
        *probe_conditions(situation.agent, situation.contract, situation.behaviour),
        *budget_conditions(situation.agent.spec.budget, situation.budget),
        _outdated(situation),
        _reconciling(situation, stalled),
        stalled,
        ready,
    )
    return tuple(condition for condition in computed if condition is not None)


def rejected(message: str) -> tuple[Condition, ...]:
    """Return the conditions of an Agent whose spec is not valid."""
    return (
        Condition(ACCEPTED, "False", "Invalid", message),
        Condition(RECONCILING, "False", "Invalid", message),
        Condition(STALLED, "True", "Invalid", message),
        Condition(READY, "False", "Invalid", message),
    )


def phase_of(computed: Sequence[Condition], *, is_suspended: bool, is_new: bool, replicas: int) -> str:
    """Return one word for people; nothing decides on it."""
    status = {condition.type: condition for condition in computed}

    def is_true(kind: str) -> bool:
        return kind in status and status[kind].status == "True"

    if ACCEPTED in status and not is_true(ACCEPTED):
        return "Failed"
    if is_suspended:
        return "Suspended" if replicas == 0 else "Draining"
    if is_true(STALLED):
        # A failed first revision serves nothing; a later one leaves the last good one in its place.
        return "Degraded" if is_true(READY) or not is_new else "Failed"
    if is_true(RECONCILING):
        if "Validated" in status and status["Validated"].reason == "Running":
            return "Validating"
        return ("Initializing" if replicas else "Pending") if is_new else "Updating"
    return "Running" if is_true(READY) else "Degraded"


def _references(situation: Situation) -> Condition:
    # scalers have a condition of their own
    unserved = [f"the cluster does not serve {kind}" for kind in situation.unserved if kind not in _SCALERS]
    if situation.missing or unserved:
        reason = "NotFound" if situation.missing else "KindNotServed"
        return Condition(REFERENCES, "False", reason, "; ".join((*situation.missing, *unserved)))
    return Condition(REFERENCES, "True", "AllFound", f"{situation.references} references")


def _storage(situation: Situation) -> Condition | None:
    claims = {ref: status for ref, status in situation.health.items() if ref.kind == "PersistentVolumeClaim"}
    if not claims:
        return None
    waiting = [f"{ref.name}: {status.message}" for ref, status in claims.items() if status.health is not Health.HEALTHY]
    if waiting:
        return Condition("StorageBound", "False", "Pending", "; ".join(waiting))
    return Condition("StorageBound", "True", "Bound", f"{len(claims)} claims")


def _cache(situation: Situation) -> Condition | None:
    if situation.agent.spec.model.cache is None:
        return None
    # One ready Pod has passed the init container that checks the digest.
    is_done = situation.ready > 0
    return Condition("ModelCached", "True" if is_done else "Unknown", "DigestMatches" if is_done else "Pending")


def _validated(situation: Situation) -> Condition | None:
    lifecycle = situation.agent.spec.lifecycle
    observed = situation.observed
    evaluation = situation.agent.spec.evaluation
    checks = len(lifecycle.validate_) if lifecycle else 0
    if not checks and evaluation is None:
        return None
    passed = str(observed.evaluation.get("message", "")) or f"{checks} checks"
    # The Job and its result may be gone; that the revision is the good one proves that it passed.
    if observed.checks is CheckResult.NONE and situation.rollout.state.last_good == observed.target:
        return Condition("Validated", "True", "Passed", passed)
    if observed.checks is CheckResult.PASSED:
        return Condition("Validated", "True", "Passed", passed)
    if observed.checks is CheckResult.FAILED or situation.rollout.state.failed == observed.target:
        message = observed.checks_message or situation.rollout.state.message
        return Condition("Validated", "False", "Failed", message)
    if observed.checks is CheckResult.INCONCLUSIVE:
        return Condition("Validated", "Unknown", "Inconclusive", observed.checks_message)
    return Condition("Validated", "Unknown", "Running" if situation.rollout.layout.checked else "Pending")


def _scaling(situation: Situation) -> Condition | None:
    if situation.agent.spec.autoscaling is None:
        return None
    if unserved := [kind for kind in situation.unserved if kind in _SCALERS]:
        return Condition("ScalingActive", "False", "KindNotServed", f"the cluster does not serve {unserved[0]}")
    status = next((status for ref, status in situation.health.items() if ref.kind in _SCALERS), None)
    # A suspended Agent has no autoscaler, which would start Pods again.
    if status is None:
        return Condition("ScalingActive", "False", "Suspended")
    is_active = status.health is not Health.DEGRADED
    return Condition("ScalingActive", str(is_active), "Active" if is_active else "Failing", status.message)


def _network(situation: Situation) -> Condition:
    network = situation.agent.spec.network
    if network.policy != "Managed":
        return Condition("NetworkRestricted", "False", "Unmanaged")
    # One allowed range of addresses may be meant for these hosts, which no policy can tell.
    if situation.hosts and not any(peer.cidr for peer in network.egress_to):
        names = ", ".join(situation.hosts)
        message = f"a NetworkPolicy cannot name {names}; allow its addresses by network.egressTo"
        return Condition("NetworkRestricted", "False", "HostNeedsCIDR", message)
    return Condition("NetworkRestricted", "True", "Restricted")


def _traffic(situation: Situation) -> Condition | None:
    canary = situation.agent.spec.update.canary
    route = situation.observed.route
    if canary is None or canary.traffic != "GatewayAPI":
        return None
    if not route.is_served:
        message = "the cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1"
        return Condition("TrafficRouted", "False", "KindNotServed", message)
    if route.problem:
        return Condition("TrafficRouted", "False", "NotAccepted", route.problem)
    return Condition("TrafficRouted", "True", "Accepted", f"{route.canary_weight} % of the requests to the canary")


def probe_conditions(agent: Agent, contract: Mapping[str, Any], behaviour: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the conditions of what is compared and asked beside rollouts, as far as the spec wants it."""
    computed = []
    if agent.spec.contract is not None:
        computed.append(_probe_condition(CONTRACT_DRIFT, contract, str(contract.get("class", ""))))
    if behaviour or (agent.spec.evaluation and agent.spec.evaluation.schedule):
        computed.append(_probe_condition("BehaviouralDrift", behaviour, "CasesFailed"))
    return tuple(computed)


def _probe_condition(kind: str, last: Mapping[str, Any], reason: str) -> Condition:
    result = last.get("result")
    rows = [f"{row['place']}: {row['difference']}" for row in last.get("differences") or ()]
    problems = "; ".join(rows or last.get("unreachable") or ())
    message = problems or str(last.get("message", ""))
    if result == ProbeResult.DRIFTED.value:
        return Condition(kind, "True", reason, message[:_LONGEST_MESSAGE])
    if result == ProbeResult.UNCHANGED.value:
        return Condition(kind, "False", result, message[:_LONGEST_MESSAGE])
    return Condition(kind, "Unknown", str(result or "Pending"), message[:_LONGEST_MESSAGE])


def _outdated(situation: Situation) -> Condition | None:
    if not situation.waits:
        return None
    return Condition(OUTDATED, "True", situation.waits[0].reason, "; ".join(turn.message for turn in situation.waits))


def _stalled(situation: Situation) -> Condition:
    # The first cause decides: a name that is taken is also why writes fail.
    if situation.conflicts:
        return Condition(STALLED, "True", "ChildConflict", "; ".join(situation.conflicts))
    if situation.failure:
        return Condition(STALLED, "True", "WriteFailed", situation.failure)
    if situation.rollout.stalled:
        reason = "ProgressDeadlineExceeded" if situation.observed.route.is_served else "KindNotServed"
        reason = "ContractDrift" if situation.observed.held == situation.rollout.stalled else reason
        reason = "RolledBack" if situation.rollout.state.failed == situation.observed.target else reason
        return Condition(STALLED, "True", reason, situation.rollout.stalled)
    return Condition(STALLED, "False", "Progressing")


def _reconciling(situation: Situation, stalled: Condition) -> Condition:
    if stalled.status == "True":
        return Condition(RECONCILING, "False", stalled.reason, stalled.message)
    if situation.held:
        return Condition(RECONCILING, "True", "AwaitingApproval", situation.held)
    state = situation.rollout.state
    if state.stage is not RolloutStage.NONE or situation.rollout.waiting:
        reason = {RolloutStage.PREVIEW: "Previewing", RolloutStage.KEEP_OLD: "KeepingOld"}.get(
            state.stage, "Progressing"
        )
        is_going = "True" if state.stage is not RolloutStage.KEEP_OLD else "False"
        return Condition(RECONCILING, is_going, reason, f"waiting for {situation.rollout.waiting}")
    return Condition(RECONCILING, "False", "Done")


def _ready(situation: Situation) -> Condition:
    message = f"{situation.ready} of {situation.observed.wanted} replicas are ready"
    if situation.agent.spec.suspend:
        return Condition(READY, "False", "Suspended", "spec.suspend is true")
    # Also with none wanted: scaled to zero is what the spec or its autoscaler asks for.
    if situation.ready >= situation.observed.wanted:
        return Condition(READY, "True", "AllReplicasReady" if situation.observed.wanted else "ScaledToZero", message)
    pods = _worst(situation.health.values())
    return Condition(READY, "False", "ReplicasNotReady", f"{message}: {pods}" if pods else message)


def _worst(statuses: Iterable[HealthStatus]) -> str:
    bad = [status for status in statuses if status.health is Health.DEGRADED]
    return bad[0].message if bad else ""


def agent_status(
    situation: Situation, facts: Facts, children: Mapping[ObjectRef, Manifest], previous: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status; an unchanged situation gives an equal one, whatever the time."""
    agent = situation.agent
    observed = situation.observed
    state = situation.rollout.state
    current = conditions(situation)
    canary = agent.spec.update.canary
    phase = phase_of(current, is_suspended=agent.spec.suspend, is_new=not state.last_good, replicas=situation.replicas)
    # Conditions of what has ended; others of the last pass that this one does not compute stay.
    ended = {OUTDATED} if not situation.waits else set()
    ended |= {BUDGET_EXCEEDED} if agent.spec.budget is None else set()
    kept = [known for known in previous.get("conditions") or () if known.get("type") not in ended]
    updated = sum(workload.ready for workload in observed.workloads.values() if workload.revision == observed.target)
    status: dict[str, Any] = {
        "observedGeneration": agent.generation,
        "phase": phase,
        "ready": f"{situation.ready}/{observed.wanted}",
        "replicas": situation.replicas,
        "readyReplicas": situation.ready,
        "updatedReplicas": updated,
        # For the subresource ``scale``: an autoscaler finds the Pods by it.
        "selector": f"{AGENT_LABEL}={agent.name}",
        "updateRevision": observed.target,
        **state.to_status(len(canary.steps) if canary else 0, situation.rollout.weight),
        "leader": _leader(agent, children),
        "url": url_of(agent) if agent.spec.expose.protocol != "None" else "",
        "referencesHash": facts.references,
        "referencesData": facts.references_data,
        "expansion": dict(situation.expansion),
        "validation": _validation(situation, previous, now),
        "evaluation": _evaluation(situation, previous, now),
        "contract": dict(situation.contract),
        "behaviour": dict(situation.behaviour),
        "budget": dict(situation.budget.status) if situation.budget is not None else {},
        "tools": [
            {"name": tool.name, "type": tool.type, "address": tool_url(agent, tool, facts)} for tool in agent.spec.tools
        ],
        "children": [
            _child(ref, manifest, situation)
            for ref, manifest in sorted(children.items())
            # There are several of each Agent, and none of them can be unready.
            if ref.kind != "ControllerRevision"
        ],
        "conditions": set_conditions(kept, current, agent.generation, now),
    }
    return {name: value for name, value in status.items() if value not in ("", [], {})}


def rejected_status(generation: int, message: str, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status of an object whose spec is not valid; what it did before is kept."""
    updated = set_conditions(previous.get("conditions") or (), rejected(message), generation, now)
    return {**previous, "observedGeneration": generation, "phase": "Failed", "conditions": updated}


def changed_status(manifest: Manifest, message: str, now: str) -> dict[str, Any]:
    """Return the status of an object whose spec others changed in the cluster; what it did before continues."""
    previous: dict[str, Any] = manifest.get("status") or {}
    generation = int(metadata_of(manifest).get("generation", 0))
    reported = (
        Condition(STALLED, "True", "ChangedInCluster", message),
        Condition(RECONCILING, "False", "ChangedInCluster"),
    )
    conditions = set_conditions(previous.get("conditions") or (), reported, generation, now)
    # The phase of before stays: the children continue as they were.
    return {"phase": "Failed", **previous, "conditions": conditions}


def defect_status(manifest: Manifest, message: str, now: str) -> dict[str, Any]:
    """Return the status of an object in whose reconcile gitsync has a defect; what it did before is kept."""
    previous: dict[str, Any] = manifest.get("status") or {}
    changed = (
        Condition(STALLED, "True", "InternalError", message),
        Condition(RECONCILING, "False", "InternalError", message),
    )
    generation = int(metadata_of(manifest).get("generation", 0))
    conditions = set_conditions(previous.get("conditions") or (), changed, generation, now)
    return {"phase": "Failed", **previous, "conditions": conditions}


def held_status(
    generation: int, plan: Mapping[str, Any], stalled: str, previous: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status while a plan is held or a child's name is taken: the children are as before."""
    if stalled:
        changed = (
            Condition(STALLED, "True", "ChildConflict", stalled),
            Condition(RECONCILING, "False", "ChildConflict"),
        )
    else:
        message = held_message(plan)
        changed = (
            Condition(STALLED, "False", "AwaitingApproval"),
            Condition(RECONCILING, "True", "AwaitingApproval", message),
        )
    known = previous.get("conditions") or ()
    return {
        **previous,
        **({"plan": dict(plan)} if plan else {}),
        "conditions": set_conditions(known, changed, generation, now),
    }


def guarded_status(generation: int, id: str, failure: str, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status while a dangerous change waits for its backup: the children are as before."""
    if failure:
        hint = "remove the cause and delete the objects of the backup to try again, or set spec.backup.beforeDangerous"
        changed = (
            Condition(STALLED, "True", "BackupFailed", f"{failure}; {hint} to false"),
            Condition(RECONCILING, "False", "BackupFailed", failure),
        )
    else:
        changed = (
            Condition(STALLED, "False", "BackingUp"),
            Condition(RECONCILING, "True", "BackingUp", f"the change waits for backup {id}"),
        )
    return {**previous, "conditions": set_conditions(previous.get("conditions") or (), changed, generation, now)}


def stopped_status(
    generation: int, message: str, replicas: int, previous: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status of an Agent that was stopped; what its rollout remembers is kept."""
    changed = (
        Condition(STALLED, "False", "Stopped"),
        Condition(RECONCILING, "False", "Stopped", message),
        Condition(READY, "False", "Suspended", message),
    )
    phase = "Draining" if replicas else "Suspended"
    conditions = set_conditions(previous.get("conditions") or (), changed, generation, now)
    wanted = str(previous.get("ready", "0/0")).rpartition("/")[2]
    counts = {"ready": f"0/{wanted}", "replicas": replicas, "readyReplicas": 0, "updatedReplicas": 0}
    return {**previous, "phase": phase, **counts, "conditions": conditions}


def waiting_status(generation: int, missing: Sequence[str], previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status while a reference is missing that a revision is made of: the children are as before."""
    message = "; ".join(missing)
    changed = (
        Condition(ACCEPTED, "True", "Valid"),
        Condition(REFERENCES, "False", "NotFound", message),
        Condition(RECONCILING, "True", "WaitingForReferences", message),
    )
    known = previous.get("conditions") or ()
    phase = previous.get("phase", "Pending")
    return {**previous, "phase": phase, "conditions": set_conditions(known, changed, generation, now)}


def held_message(plan: Mapping[str, Any]) -> str:
    """Return why a plan waits, and how to continue it."""
    return f"plan {plan['id']} waits for gitsync agent approve: {'; '.join(plan['reasons'])}"


def _leader(agent: Agent, children: Mapping[ObjectRef, Manifest]) -> str:
    """Return the replica that holds the Lease, empty where none does."""
    if agent.spec.leader_election is None:
        return ""
    lease = children.get(ObjectRef("coordination.k8s.io", "Lease", agent.namespace, lease_name(agent)))
    return str(at(lease, "spec", "holderIdentity", default="") or "")


def _validation(situation: Situation, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    observed = situation.observed
    kept = previous.get("validation") or {}
    if observed.checks in (CheckResult.NONE, CheckResult.RUNNING):
        return dict(kept)
    result = {"revision": observed.target, "result": observed.checks.value, "message": observed.checks_message}
    result = {name: value for name, value in result.items() if value}
    # Without the time: the same result found again must not change the status.
    if {name: value for name, value in kept.items() if name != "finishedAt"} == result:
        return dict(kept)
    return {**result, "finishedAt": now}


def _evaluation(situation: Situation, previous: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the verdict on the last revision that was evaluated."""
    kept = previous.get("evaluation") or {}
    if situation.agent.spec.evaluation is None or not situation.observed.evaluation:
        return dict(kept) if situation.agent.spec.evaluation else {}
    verdict = {"revision": situation.observed.target, **situation.observed.evaluation}
    if {name: value for name, value in kept.items() if name != "finishedAt"} == verdict:
        return dict(kept)
    return {**verdict, "finishedAt": now}


def _child(ref: ObjectRef, manifest: Manifest, situation: Situation) -> dict[str, Any]:
    status = situation.health.get(ref)
    is_ready = status is not None and status.health in (Health.HEALTHY, Health.UNKNOWN, Health.SUSPENDED)
    child = {"apiVersion": manifest["apiVersion"], "kind": ref.kind, "name": ref.name, "ready": is_ready}
    return child if is_ready or status is None else {**child, "message": status.message}
