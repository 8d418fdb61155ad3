"""Metadata of children."""

from __future__ import annotations

from typing import Any

from gitsync.agents.keys import AGENT_LABEL
from gitsync.agents.model.agent import Agent
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest

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
        "blockOwnerDeletion": True,
    }


def service_url(name: str, namespace: str, port: int, path: str = "") -> str:
    """Return the URL of a Service inside the cluster."""
    return f"http://{name}.{namespace}.{_DOMAIN}:{port}{path}"


def compact(members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that are set: neither None, nor an empty text, list or map."""
    return {name: value for name, value in members.items() if value not in (None, "", (), [], {})}
