"""The status of an Agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.agents.expansion.config import tool_url, url_of
from gitsync.agents.expansion.election import lease_name
from gitsync.agents.expansion.facts import Facts
from gitsync.agents.keys import AGENT_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.agents.rollout.observed import CheckResult
from gitsync.agents.status.conditions import (
    ACCEPTED,
    RECONCILING,
    REFERENCES,
    STALLED,
    Situation,
    conditions,
    phase_of,
    rejected,
)
from gitsync.objects.conditions import Condition, set_conditions
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import ObjectRef


def agent_status(
    given: Situation, facts: Facts, children: Mapping[ObjectRef, Manifest], before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status; an unchanged situation gives an equal one, whatever the time."""
    agent, seen, state = given.agent, given.seen, given.rollout.state
    found = conditions(given)
    canary = agent.spec.update.canary
    phase = phase_of(found, is_suspended=agent.spec.suspend, is_new=not state.last_good, replicas=given.replicas)
    updated = sum(one.ready for one in seen.workloads.values() if one.revision == seen.target)
    status: dict[str, Any] = {
        "observedGeneration": agent.generation,
        "phase": phase,
        "ready": f"{given.ready}/{seen.wanted}",
        "replicas": given.replicas,
        "readyReplicas": given.ready,
        "updatedReplicas": updated,
        "selector": f"{AGENT_LABEL}={agent.name}",
        "updateRevision": seen.target,
        **state.to_status(len(canary.steps) if canary else 0, given.rollout.weight),
        "leader": _leader(agent, children),
        "url": url_of(agent) if agent.spec.expose.protocol != "None" else "",
        "referencesHash": facts.references,
        "validation": _validation(given, before, now),
        "evaluation": _evaluation(given, before, now),
        "tools": [
            {"name": tool.name, "type": tool.type, "address": tool_url(agent, tool, facts)} for tool in agent.spec.tools
        ],
        "children": [
            _child(ref, manifest, given)
            for ref, manifest in sorted(children.items())
            if ref.kind != "ControllerRevision"
        ],
        "conditions": set_conditions(before.get("conditions") or (), found, agent.generation, now),
    }
    return {name: value for name, value in status.items() if value not in ("", [], {})}


def rejected_status(generation: int, message: str, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status of an object whose spec is not valid; what it did before is kept."""
    found = set_conditions(before.get("conditions") or (), rejected(message), generation, now)
    return {**before, "observedGeneration": generation, "phase": "Failed", "conditions": found}


def defect_status(manifest: Manifest, message: str, now: str) -> dict[str, Any]:
    """Return the status of an object in whose reconcile gitsync has a defect; what it did before is kept."""
    before: dict[str, Any] = manifest.get("status") or {}
    found = (
        Condition(STALLED, "True", "InternalError", message),
        Condition(RECONCILING, "False", "InternalError", message),
    )
    generation = int(metadata_of(manifest).get("generation", 0))
    conditions = set_conditions(before.get("conditions") or (), found, generation, now)
    return {"phase": "Failed", **before, "conditions": conditions}


def held_status(
    generation: int, plan: Mapping[str, Any], stalled: str, before: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """Return the status while a plan is held or a child's name is taken: the children are as before."""
    if stalled:
        found = (Condition(STALLED, "True", "ChildConflict", stalled), Condition(RECONCILING, "False", "ChildConflict"))
    else:
        message = held_message(plan)
        found = (
            Condition(STALLED, "False", "AwaitingApproval"),
            Condition(RECONCILING, "True", "AwaitingApproval", message),
        )
    known = before.get("conditions") or ()
    return {
        **before,
        **({"plan": dict(plan)} if plan else {}),
        "conditions": set_conditions(known, found, generation, now),
    }


def guarded_status(generation: int, id: str, failure: str, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status while a dangerous change waits for its backup: the children are as before."""
    if failure:
        hint = "remove the cause and delete the objects of the backup to try again, or set spec.backup.beforeDangerous"
        found = (
            Condition(STALLED, "True", "BackupFailed", f"{failure}; {hint} to false"),
            Condition(RECONCILING, "False", "BackupFailed", failure),
        )
    else:
        found = (
            Condition(STALLED, "False", "BackingUp"),
            Condition(RECONCILING, "True", "BackingUp", f"the change waits for backup {id}"),
        )
    return {**before, "conditions": set_conditions(before.get("conditions") or (), found, generation, now)}


def waiting_status(generation: int, missing: Sequence[str], before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the status while a reference is missing that a revision is made of: the children are as before."""
    message = "; ".join(missing)
    found = (
        Condition(ACCEPTED, "True", "Valid"),
        Condition(REFERENCES, "False", "NotFound", message),
        Condition(RECONCILING, "True", "WaitingForReferences", message),
    )
    known = before.get("conditions") or ()
    phase = before.get("phase", "Pending")
    return {**before, "phase": phase, "conditions": set_conditions(known, found, generation, now)}


def held_message(plan: Mapping[str, Any]) -> str:
    """Return why a plan waits, and how to continue it."""
    return f"plan {plan['id']} waits for gitsync agent approve: {'; '.join(plan['reasons'])}"


def _leader(agent: Agent, children: Mapping[ObjectRef, Manifest]) -> str:
    """Return the replica that holds the Lease, empty where none does."""
    if agent.spec.leader_election is None:
        return ""
    lease = children.get(ObjectRef("coordination.k8s.io", "Lease", agent.namespace, lease_name(agent)))
    return str(at(lease, "spec", "holderIdentity", default="") or "")


def _validation(given: Situation, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    seen, kept = given.seen, before.get("validation") or {}
    if seen.checks in (CheckResult.NONE, CheckResult.RUNNING):
        return dict(kept)
    found = {"revision": seen.target, "result": seen.checks.value, "message": seen.checks_message}
    found = {name: value for name, value in found.items() if value}
    if {name: value for name, value in kept.items() if name != "finishedAt"} == found:
        return dict(kept)
    return {**found, "finishedAt": now}


def _evaluation(given: Situation, before: Mapping[str, Any], now: str) -> dict[str, Any]:
    """Return the verdict on the last revision that was evaluated."""
    kept = before.get("evaluation") or {}
    if given.agent.spec.evaluation is None or not given.seen.evaluation:
        return dict(kept) if given.agent.spec.evaluation else {}
    found = {"revision": given.seen.target, **given.seen.evaluation}
    if {name: value for name, value in kept.items() if name != "finishedAt"} == found:
        return dict(kept)
    return {**found, "finishedAt": now}


def _child(ref: ObjectRef, manifest: Manifest, given: Situation) -> dict[str, Any]:
    status = given.health.get(ref)
    is_ready = status is not None and status.health in (Health.HEALTHY, Health.UNKNOWN, Health.SUSPENDED)
    found = {"apiVersion": manifest["apiVersion"], "kind": ref.kind, "name": ref.name, "ready": is_ready}
    return found if is_ready or status is None else {**found, "message": status.message}
