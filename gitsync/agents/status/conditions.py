"""The conditions of an Agent, and its phase, which is derived from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.advance import Rollout
from gitsync.agents.rollout.observed import CheckResult, Observed
from gitsync.agents.rollout.state import Stage
from gitsync.objects.conditions import READY, Condition
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.ref import ObjectRef

RECONCILING, STALLED, ACCEPTED, REFERENCES = "Reconciling", "Stalled", "Accepted", "ReferencesResolved"


@dataclass(frozen=True, slots=True)
class Situation:
    """
    What the conditions of an Agent are computed from.

    ``missing`` are references that lead nowhere, ``hosts`` those that a NetworkPolicy cannot name, ``unserved`` the
    kinds of children that the cluster does not serve, ``held`` is why a plan waits, ``failure`` why a write failed.
    """

    agent: Agent
    seen: Observed
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


def conditions(given: Situation) -> tuple[Condition, ...]:
    """Return the conditions that apply to the Agent; a part that the spec does not have has none."""
    ready, stalled = _ready(given), _stalled(given)
    found = (
        Condition(ACCEPTED, "True", "Valid"),
        _references(given),
        _storage(given),
        _cache(given),
        _validated(given),
        _scaling(given),
        _network(given),
        _traffic(given),
        _reconciling(given, stalled),
        stalled,
        ready,
    )
    return tuple(condition for condition in found if condition is not None)


def rejected(message: str) -> tuple[Condition, ...]:
    """Return the conditions of an Agent whose spec is not valid."""
    return (
        Condition(ACCEPTED, "False", "Invalid", message),
        Condition(RECONCILING, "False", "Invalid", message),
        Condition(STALLED, "True", "Invalid", message),
        Condition(READY, "False", "Invalid", message),
    )


def phase_of(found: Sequence[Condition], *, is_suspended: bool, is_new: bool, replicas: int) -> str:
    """Return one word for people; nothing decides on it."""
    status = {condition.type: condition for condition in found}

    def is_true(kind: str) -> bool:
        return kind in status and status[kind].status == "True"

    if ACCEPTED in status and not is_true(ACCEPTED):
        return "Failed"
    if is_suspended:
        return "Suspended" if replicas == 0 else "Draining"
    if is_true(STALLED):
        return "Degraded" if is_true(READY) or not is_new else "Failed"
    if is_true(RECONCILING):
        if "Validated" in status and status["Validated"].reason == "Running":
            return "Validating"
        return ("Initializing" if replicas else "Pending") if is_new else "Updating"
    return "Running" if is_true(READY) else "Degraded"


def _references(given: Situation) -> Condition:
    if given.missing:
        return Condition(REFERENCES, "False", "NotFound", "; ".join(given.missing))
    return Condition(REFERENCES, "True", "AllFound", f"{given.references} references")


def _storage(given: Situation) -> Condition | None:
    claims = {ref: status for ref, status in given.health.items() if ref.kind == "PersistentVolumeClaim"}
    if not claims:
        return None
    waiting = [f"{ref.name}: {status.message}" for ref, status in claims.items() if status.health is not Health.HEALTHY]
    if waiting:
        return Condition("StorageBound", "False", "Pending", "; ".join(waiting))
    return Condition("StorageBound", "True", "Bound", f"{len(claims)} claims")


def _cache(given: Situation) -> Condition | None:
    if given.agent.spec.model.cache is None:
        return None
    is_done = given.ready > 0
    return Condition("ModelCached", "True" if is_done else "Unknown", "DigestMatches" if is_done else "Pending")


def _validated(given: Situation) -> Condition | None:
    lifecycle, seen, evaluation = given.agent.spec.lifecycle, given.seen, given.agent.spec.evaluation
    checks = len(lifecycle.validate_) if lifecycle else 0
    if not checks and evaluation is None:
        return None
    passed = str(seen.evaluation.get("message", "")) or f"{checks} checks"
    if seen.checks is CheckResult.NONE and given.rollout.state.last_good == seen.target:
        return Condition("Validated", "True", "Passed", passed)
    if seen.checks is CheckResult.PASSED:
        return Condition("Validated", "True", "Passed", passed)
    if seen.checks is CheckResult.FAILED or given.rollout.state.failed == seen.target:
        message = seen.checks_message or given.rollout.state.message
        return Condition("Validated", "False", "Failed", message)
    return Condition("Validated", "Unknown", "Running" if given.rollout.layout.checked else "Pending")


def _scaling(given: Situation) -> Condition | None:
    if given.agent.spec.autoscaling is None:
        return None
    kinds = ("HorizontalPodAutoscaler", "ScaledObject")
    if unserved := [kind for kind in given.unserved if kind in kinds]:
        return Condition("ScalingActive", "False", "KindNotServed", f"the cluster does not serve {unserved[0]}")
    status = next((status for ref, status in given.health.items() if ref.kind in kinds), None)
    if status is None:
        return Condition("ScalingActive", "False", "Suspended")
    is_active = status.health is not Health.DEGRADED
    return Condition("ScalingActive", str(is_active), "Active" if is_active else "Failing", status.message)


def _network(given: Situation) -> Condition:
    network = given.agent.spec.network
    if network.policy != "Managed":
        return Condition("NetworkRestricted", "False", "Unmanaged")
    if given.hosts and not any(peer.cidr for peer in network.egress_to):
        names = ", ".join(given.hosts)
        message = f"a NetworkPolicy cannot name {names}; allow its addresses by network.egressTo"
        return Condition("NetworkRestricted", "False", "HostNeedsCIDR", message)
    return Condition("NetworkRestricted", "True", "Restricted")


def _traffic(given: Situation) -> Condition | None:
    canary, route = given.agent.spec.update.canary, given.seen.route
    if canary is None or canary.traffic != "GatewayAPI":
        return None
    if not route.is_served:
        message = "the cluster does not serve HTTPRoute of gateway.networking.k8s.io/v1"
        return Condition("TrafficRouted", "False", "KindNotServed", message)
    if route.problem:
        return Condition("TrafficRouted", "False", "NotAccepted", route.problem)
    return Condition("TrafficRouted", "True", "Accepted", f"{route.canary_weight} % of the requests to the canary")


def _stalled(given: Situation) -> Condition:
    if given.conflicts:
        return Condition(STALLED, "True", "ChildConflict", "; ".join(given.conflicts))
    if given.failure:
        return Condition(STALLED, "True", "WriteFailed", given.failure)
    if given.rollout.stalled:
        reason = "ProgressDeadlineExceeded" if given.seen.route.is_served else "KindNotServed"
        reason = "RolledBack" if given.rollout.state.failed == given.seen.target else reason
        return Condition(STALLED, "True", reason, given.rollout.stalled)
    return Condition(STALLED, "False", "Progressing")


def _reconciling(given: Situation, stalled: Condition) -> Condition:
    if stalled.status == "True":
        return Condition(RECONCILING, "False", stalled.reason, stalled.message)
    if given.held:
        return Condition(RECONCILING, "True", "AwaitingApproval", given.held)
    state = given.rollout.state
    if state.stage is not Stage.NONE or given.rollout.waiting:
        reason = {Stage.PREVIEW: "Previewing", Stage.KEEP_OLD: "KeepingOld"}.get(state.stage, "Progressing")
        is_going = "True" if state.stage is not Stage.KEEP_OLD else "False"
        return Condition(RECONCILING, is_going, reason, f"waiting for {given.rollout.waiting}")
    return Condition(RECONCILING, "False", "Done")


def _ready(given: Situation) -> Condition:
    message = f"{given.ready} of {given.seen.wanted} replicas are ready"
    if given.agent.spec.suspend:
        return Condition(READY, "False", "Suspended", "spec.suspend is true")
    if given.ready >= given.seen.wanted:
        return Condition(READY, "True", "AllReplicasReady" if given.seen.wanted else "ScaledToZero", message)
    pods = _worst(given.health.values())
    return Condition(READY, "False", "ReplicasNotReady", f"{message}: {pods}" if pods else message)


def _worst(found: Iterable[HealthStatus]) -> str:
    bad = [status for status in found if status.health is Health.DEGRADED]
    return bad[0].message if bad else ""
