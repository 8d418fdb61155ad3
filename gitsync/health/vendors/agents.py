"""Health of Agents and of platforms that run agents: gitsync, kagent, ARK and agent-sandbox."""

from __future__ import annotations

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    message,
    number,
    progressing,
    reason_of,
    spec_of,
    status_of,
    suspended,
    text,
    unknown,
)
from gitsync.objects.health import NEAR_BUDGET, OVER_BUDGET, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import GroupKind


def agent(live: Manifest) -> HealthStatus:
    """Judge an Agent or MultiAgentSystem of gitsync: its conditions, once they are of the newest generation."""
    generation = number(live, "metadata", "generation")
    observed = number(live, "status", "observedGeneration")
    conditions = conditions_of(live)
    busy = condition_of(conditions, "Reconciling") or {}
    stalled = condition_of(conditions, "Stalled") or {}
    ready = condition_of(conditions, "Ready") or {}
    if stalled.get("status") == "True":
        return degraded(reason_of(stalled))
    if observed < generation or busy.get("status") == "True":
        return progressing(message(busy) or "waiting for the operator")
    if ready.get("reason") == "Suspended" or spec_of(live).get("suspend") is True:
        return suspended(message(ready))
    if ready.get("status") == "True":
        return _drifted(conditions) or healthy(f"{_budget(conditions)}{message(ready)}")
    return degraded(reason_of(ready)) if ready else progressing("waiting for the operator")


def _drifted(conditions: list[Manifest]) -> HealthStatus | None:
    """Return the health of an Agent that answers, but not as it was reviewed; None where it does."""
    contract = condition_of(conditions, "ContractDrift") or {}
    behaviour = condition_of(conditions, "BehaviouralDrift") or {}
    if contract.get("status") == "True" and contract.get("reason") == "Dangerous":
        return degraded(f"contract drift: {message(contract)}")
    return degraded(f"its cases fail: {message(behaviour)}") if behaviour.get("status") == "True" else None


def _budget(conditions: list[Manifest]) -> str:
    """
    Return how near an Agent is to its budget, as the beginning of a message.

    It stays healthy: it answers, and a sync that waits for its health must not fail or be reverted for what it costs.
    """
    budget = condition_of(conditions, "BudgetExceeded") or {}
    if budget.get("status") == "True":
        return f"{OVER_BUDGET}; "
    return f"{NEAR_BUDGET}; " if budget.get("reason") == "NearLimit" else ""


def kagent_agent(live: Manifest) -> HealthStatus:
    """
    Judge a kagent Agent: its configuration is accepted, and its Deployment is ready.

    Source: kagent-dev/kagent, go/api/v1alpha2/agent_types.go (condition types Accepted and Ready).
    """
    conditions = conditions_of(live)
    accepted = condition_of(conditions, "Accepted") or {}
    ready = condition_of(conditions, "Ready") or {}
    if accepted.get("status") == "False":
        return degraded(reason_of(accepted))
    if ready.get("status") == "True":
        return healthy(message(ready))
    return progressing(reason_of(ready) or "waiting for the Deployment of the agent")


def kagent_config(live: Manifest) -> HealthStatus:
    """
    Judge a kagent ModelConfig, RemoteMCPServer or Memory, which is accepted or not.

    Source: kagent-dev/kagent, go/api/v1alpha2 (condition type Accepted).
    """
    accepted = condition_of(conditions_of(live), "Accepted") or {}
    if accepted.get("status") == "False":
        return degraded(reason_of(accepted))
    return healthy(message(accepted)) if accepted else progressing("waiting to be accepted")


def ark(live: Manifest) -> HealthStatus:
    """
    Judge an object of ARK by its phase or its condition of availability; Agents and Teams of older versions have none.

    Source: mckinsey/agents-at-scale-ark, ark/api/v1alpha1 (phases of Query, Model, MCPServer and A2AServer).
    """
    sign = next((condition for condition in conditions_of(live) if text(condition, "type").endswith("Available")), None)
    word = text(live, "status", "phase").lower()
    detail = text(live, "status", "message") or word
    if sign is not None:
        return healthy(message(sign)) if sign.get("status") == "True" else _not_available(sign)
    if word in ("ready", "done", "completed"):
        return healthy(detail)
    if word in ("error", "failed"):
        return degraded(detail)
    if word == "canceled":
        return suspended(detail)
    return progressing(detail) if word else unknown("its status reports nothing")


_SANDBOX_ERRORS = frozenset(
    {
        *("ReconcilerError", "MultiplePods", "PodFailed", "TemplateNotFound", "WarmPoolNotFound", "InvalidMetadata"),
        *("EnvVarsInjectionRejected", "InvalidConfiguration", "VolumeClaimTemplatesError"),
    }
)
"""Reasons of Ready that do not end by waiting; others, such as AdoptionConflict and SandboxMissing, do."""


def sandbox(live: Manifest) -> HealthStatus:
    """
    Judge a Sandbox or SandboxClaim of agent-sandbox; one that is suspended or past its shutdown is stopped on purpose.

    Source: kubernetes-sigs/agent-sandbox, api/v1alpha1 (replicas) and api/v1beta1/sandbox_types.go (operatingMode,
    condition types Ready, Suspended and Finished, and their reasons), extensions/controllers/sandboxclaim_controller.go
    (reasons of claims).
    """
    conditions = conditions_of(live)
    ready = condition_of(conditions, "Ready") or {}
    finished = condition_of(conditions, "Finished") or {}
    if finished.get("status") == "True":
        return degraded(reason_of(finished)) if "Failed" in text(finished, "reason") else healthy(reason_of(finished))
    is_stopped = number(live, "spec", "replicas", default=1) == 0 or text(live, "spec", "operatingMode") == "Suspended"
    if is_stopped or ready.get("reason") in ("SandboxExpired", "SandboxSuspended", "ClaimExpired"):
        return suspended(reason_of(ready))
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("reason") in _SANDBOX_ERRORS:
        return degraded(reason_of(ready))
    return progressing(reason_of(ready) or "waiting for the Pod of the sandbox")


def warm_pool(live: Manifest) -> HealthStatus:
    """
    Judge a SandboxWarmPool by its ready replicas: it has no conditions.

    Source: kubernetes-sigs/agent-sandbox, extensions/api/v1alpha1 and v1beta1, sandboxwarmpool_types.go.
    """
    wanted = number(live, "spec", "replicas")
    if "replicas" not in status_of(live) and wanted:
        return progressing("waiting for the pool")
    ready = number(live, "status", "readyReplicas")
    detail = f"{ready} of {wanted} sandboxes are ready"
    return healthy(detail) if ready >= wanted else progressing(detail)


def _not_available(sign: dict[str, object]) -> HealthStatus:
    is_pending = sign.get("status") == "Unknown"
    return progressing(reason_of(sign)) if is_pending else degraded(reason_of(sign))


_KAGENT = "kagent.dev"
_ARK = "ark.mckinsey.com"
_EXTENSIONS = "extensions.agents.x-k8s.io"

RULES: dict[GroupKind, Rule] = {
    GroupKind("agents.gitsync.dev", "Agent"): agent,
    GroupKind("agents.gitsync.dev", "MultiAgentSystem"): agent,
    GroupKind(_KAGENT, "Agent"): kagent_agent,
    GroupKind(_KAGENT, "MCPServer"): kagent_agent,
    **{GroupKind(_KAGENT, kind): kagent_config for kind in ("Memory", "ModelConfig", "RemoteMCPServer", "ToolServer")},
    **{GroupKind(_ARK, kind): ark for kind in ("A2AServer", "Agent", "MCPServer", "Model", "Query", "Team")},
    GroupKind("agents.x-k8s.io", "Sandbox"): sandbox,
    GroupKind(_EXTENSIONS, "SandboxClaim"): sandbox,
    GroupKind(_EXTENSIONS, "SandboxWarmPool"): warm_pool,
}
