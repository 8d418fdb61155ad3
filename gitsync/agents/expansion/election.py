"""The Lease by which one replica of an Agent leads, and the right of its Pods to hold it."""

from __future__ import annotations

from typing import Any

from gitsync.agents.expansion.sharing import Sharing
from gitsync.agents.keys import child
from gitsync.agents.model.agent import Agent
from gitsync.objects.manifest import Manifest

_LEASE = "AGENT_LEASE"
_DURATION = "AGENT_LEASE_DURATION_SECONDS"
_RENEW = "AGENT_LEASE_RENEW_DEADLINE_SECONDS"
_RETRY = "AGENT_LEASE_RETRY_PERIOD_SECONDS"
_VARIABLES = frozenset({_LEASE, _DURATION, _RENEW, _RETRY})
_RBAC = "rbac.authorization.k8s.io"


def lease_name(agent: Agent) -> str:
    """Return the name of the Lease, of the Role that allows to hold it, and of its binding."""
    return f"{agent.name}-leader"


def service_account_name(agent: Agent) -> str:
    """Return the ServiceAccount of the Pods."""
    account = agent.spec.runtime.service_account
    # An account that is named keeps its own rights; ``default`` is what the API server would choose.
    return agent.name if account.create else account.name or "default"


def mounts_token(agent: Agent) -> bool:
    """Whether Pods get the token of their ServiceAccount: the spec wants it, or they have to hold a Lease."""
    return agent.spec.leader_election is not None or agent.spec.runtime.service_account.automount_token


def leader_election(sharing: Sharing) -> list[Manifest]:
    """
    Return the Lease and the right to it, where the spec of a revision in use wants a leader.

    Its spec belongs to the replicas. They may not create Leases: a Role cannot limit that to a name.
    """
    # Of all revisions in use: until its last Pod is gone, an older one needs the Lease.
    electing = [agent for agent in sharing.all if agent.spec.leader_election is not None]
    if not electing:
        return []
    agent = electing[0]
    name = lease_name(agent)
    rule = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [name],
        "verbs": ["get", "update", "patch"],
    }
    # dict.fromkeys: each account once, in an order that does not change between two passes.
    accounts = dict.fromkeys(service_account_name(elector) for elector in electing)
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": agent.namespace} for account in accounts]
    return [
        # Without spec: its fields belong to the replicas, and applying them would take the Lease away.
        child(agent, "coordination.k8s.io/v1", "Lease", name),
        child(agent, f"{_RBAC}/v1", "Role", name, rules=[rule]),
        child(
            agent,
            f"{_RBAC}/v1",
            "RoleBinding",
            name,
            roleRef={"apiGroup": _RBAC, "kind": "Role", "name": name},
            subjects=subjects,
        ),
    ]


def lease_variables(agent: Agent) -> list[dict[str, Any]]:
    """Return the variables by which a replica takes part; its identity is ``POD_NAME``."""
    election = agent.spec.leader_election
    if election is None:
        return []
    values = {
        _LEASE: lease_name(agent),
        _DURATION: str(election.lease_duration_seconds),
        _RENEW: str(election.renew_deadline_seconds),
        _RETRY: str(election.retry_period_seconds),
    }
    return [{"name": name, "value": value} for name, value in values.items()]


def without_election(template: Manifest) -> Manifest:
    """Return a Pod template whose containers do not take part: before its checks, a revision must not lead."""
    spec = {**template["spec"]}
    for group in ("initContainers", "containers"):
        if group in spec:
            spec[group] = [_without_variables(container) for container in spec[group]]
    return {**template, "spec": spec}


def _without_variables(container: Manifest) -> Manifest:
    if "env" not in container:
        return container
    return {**container, "env": [variable for variable in container["env"] if variable["name"] not in _VARIABLES]}
