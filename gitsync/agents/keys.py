"""Labels, annotations, names and metadata of an Agent's children."""

from __future__ import annotations

from typing import Any, Final

from gitsync.agents.model.agent import Agent
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest

AGENT_LABEL: Final = "agents.gitsync.dev/agent"
"""Label on every child and Pod: the name of the Agent."""
TRACK_LABEL: Final = "agents.gitsync.dev/track"
"""Label on Pods: the workload that they belong to, such as ``stable`` or ``canary``."""
REVISION_LABEL: Final = "agents.gitsync.dev/revision"
"""Label on Pods and revisions: the hash of the revision."""
SERVING_LABEL: Final = "agents.gitsync.dev/serving"
"""Label on Pods that the Service selects; those of a preview do not have it."""
CHECK_LABEL: Final = "agents.gitsync.dev/check"
"""Label on the Pods of checks: the name of the Agent that they check."""
CONTRACT_LABEL: Final = "agents.gitsync.dev/contract"
"""Label on the Jobs that compare an Agent's contract with its lock: the id of the comparison."""
SYSTEM_LABEL: Final = "agents.gitsync.dev/system"
"""Label on the Agents of a MultiAgentSystem: its name."""

REFERENCES_ANNOTATION: Final = "agents.gitsync.dev/references"
"""Annotation on Pods: a hash of the Secrets and ConfigMaps that the Agent names, which rolls them when one changes."""
RESTARTED_AT: Final = "agents.gitsync.dev/restarted-at"
"""Annotation on an Agent, and from there on Pods: when a user restarted it."""
PROMOTE: Final = "agents.gitsync.dev/promote"
"""Annotation on an Agent: the revision that a user promotes."""
APPROVE: Final = "agents.gitsync.dev/approve"
"""
Annotation on an Agent: the id of the plan that a user reviewed last, which wakes the operator.

It approves nothing: approvals are links of the audit chain, and anybody who writes to Git can write an annotation.
"""
ABORT: Final = "agents.gitsync.dev/abort"
"""Annotation on an Agent: the revision that a user aborts."""
BACKUP: Final = "agents.gitsync.dev/backup-request"
"""Annotation on an Agent: the id of a backup that a user requests."""
BACKUP_LABEL: Final = "agents.gitsync.dev/backup"
"""Label on the objects of a backup: its id."""

UPGRADE: Final = "agents.gitsync.dev/upgrade"
"""
Annotation on an Agent: the version of the expansion to which a user upgrades it, ``VERSION`` or ``VERSION/LIMIT``.

The limit is the number or percentage of the Agents with such an annotation that upgrade at one time.
"""

RETRY: Final = "agents.gitsync.dev/retry"
"""Annotation on an Agent: a revision and a time, ``REVISION@TIME``: a user wants that it is checked again."""
STOPPED: Final = "agents.gitsync.dev/stopped"
"""Annotation on an Agent: why a user stopped it; it runs again once the annotation is gone."""

CHECKS: Final = "agents.gitsync.dev/checks"
"""Annotation on the Pods of checks: a hash of the checks, the evaluation and its cases."""
VERDICT: Final = "agents.gitsync.dev/verdict"
"""Annotation on a kept revision: the result of its checks, with the hash of these, as JSON."""
EXPANSION: Final = "agents.gitsync.dev/expansion"
"""Annotation on a kept revision: the version of the expansion that made it."""
INPUTS: Final = "agents.gitsync.dev/inputs"
"""Annotation on a kept revision: a hash of the parts of spec and facts that it was made from."""
SPEC: Final = "agents.gitsync.dev/spec"
"""Annotation on a kept revision: the spec of the Agent, without the text of its prompt, as JSON."""
EVALUATION: Final = "agents.gitsync.dev/evaluation"
"""Annotation on a kept revision: the verdict of its evaluation, as JSON."""

ORDERED_DELETION: Final = "agents.gitsync.dev/ordered-deletion"
"""Finalizer of a MultiAgentSystem whose members are deleted in order."""

CONFIG_VOLUME: Final = "agent-config"
"""The volume of a Pod with the configuration of its revision."""
CONFIG_PATH: Final = "/etc/agent/config"
CARD_PATH: Final = "/etc/agent/card"
TOPOLOGY_PATH: Final = "/etc/agent/topology"
DATABASES_PATH: Final = "/etc/agent/databases"


_DOMAIN = "svc.cluster.local"


def labels_for(agent: Agent) -> dict[str, str]:
    """Return the labels of every child."""
    return {
        AGENT_LABEL: agent.name,
        "app.kubernetes.io/name": agent.name,
        "app.kubernetes.io/instance": agent.name,
        "app.kubernetes.io/version": agent.spec.version,
        "app.kubernetes.io/managed-by": "gitsync",
    }


def child(agent: Agent, api_version: str, kind: str, name: str, **members: Any) -> Manifest:
    """Return a child with owner reference and labels, and these members."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": agent.namespace,
            "labels": labels_for(agent),
            "ownerReferences": [owner_reference(agent.name, agent.uid)],
        },
        **members,
    }


def owner_reference(name: str, uid: str, kind: str = "Agent") -> dict[str, Any]:
    """Return the owner reference of children: the garbage collector deletes them with their owner."""
    return {
        "apiVersion": f"{AGENTS_GROUP}/{VERSION}",
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        # Foreground deletion of the Agent waits for its children.
        "blockOwnerDeletion": True,
    }


def service_url(name: str, namespace: str, port: int, path: str = "") -> str:
    """Return the URL of a Service inside the cluster."""
    return f"http://{name}.{namespace}.{_DOMAIN}:{port}{path}"


def compact(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are set: neither None, nor an empty text, list or map."""
    # Not ``bool(value)``: 0 and false are values that the API server distinguishes from absence.
    return {name: value for name, value in members.items() if value not in (None, "", (), [], {})}
