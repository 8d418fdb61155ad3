"""Expand a MultiAgentSystem into its Agents, its topology and its Service."""

from __future__ import annotations

import json
from typing import Any

from gitsync.agents.keys import AGENT_LABEL, SERVING_LABEL, SYSTEM_LABEL, compact, owner_reference, service_url
from gitsync.agents.model.system import Channel, Member, System
from gitsync.agents.systems.members import agent_name, member_spec
from gitsync.agents.systems.rollout import SystemRevision, kept_data
from gitsync.objects.keys import AGENTS_GROUP, OWNER_UID, VERSION
from gitsync.objects.manifest import Manifest, at

_DEFAULT_PORT = 8080


def member_agent(system: System, member: Member, namespace_uid: str = "") -> Manifest:
    """Return the Agent of an inline member; ``namespace_uid`` is that of its namespace, empty where it is not known."""
    labels = dict(member.template.labels) if member.template else {}
    manifest = _object(system, f"{AGENTS_GROUP}/{VERSION}", "Agent", agent_name(system, member), labels)
    if namespace_uid and system.spec.deletion.order == "ReverseDependencies":
        manifest["metadata"] |= _outliving(manifest["metadata"], system, namespace_uid)
    return {**manifest, "spec": member_spec(system, member)}


def _outliving(metadata: dict[str, Any], system: System, namespace_uid: str) -> dict[str, Any]:
    """
    Return the metadata that keep a member when its system is deleted in the foreground.

    The garbage collector would delete all members at once, before any finalizer counts. One with a second owner that
    stays only loses its reference to the system (attemptToDeleteItem of Kubernetes), and the operator deletes it in
    its wave. A namespace is the owner that always is there, and goes after everything in it.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "name": system.namespace, "uid": namespace_uid}
    return {
        "annotations": {OWNER_UID: system.uid},
        "ownerReferences": [*metadata["ownerReferences"], namespace],
    }


def topology(system: System, ports: dict[str, int]) -> Manifest:
    """Return the ConfigMap that members mount: who is there, and who talks to whom. ``ports`` are by Agent name."""
    document = {
        "system": system.name,
        "strategy": system.spec.topology.strategy,
        "maxTurns": system.spec.topology.max_turns,
        "entrypoint": system.spec.entrypoint or "",
        "members": [
            {"name": member.name, "agent": agent_name(system, member), "url": _url(system, member, ports)}
            for member in system.spec.agents
        ],
        "channels": [_channel(channel) for channel in system.spec.channels],
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return {**_object(system, "v1", "ConfigMap", f"{system.name}-topology"), "data": {"topology.json": text}}


def entry_service(system: System, ports: dict[str, int]) -> list[Manifest]:
    """Return the Service of the system, which selects the serving Pods of the entry member."""
    member = next((member for member in system.spec.agents if member.name == system.spec.entrypoint), None)
    if member is None:
        return []
    name = agent_name(system, member)
    port = {"name": "http", "port": ports.get(name, _DEFAULT_PORT), "targetPort": "http", "protocol": "TCP"}
    # By the name of the Agent: one that is declared on its own has no label of the system.
    spec = {"selector": {AGENT_LABEL: name, SERVING_LABEL: "true"}, "ports": [port]}
    return [{**_object(system, "v1", "Service", system.name), "spec": spec}]


def kept_revision(system: System, revision: SystemRevision) -> Manifest:
    """Return the object that keeps specs of the members, so that they can be restored."""
    kept = _object(system, "apps/v1", "ControllerRevision", revision.name)
    return {**kept, "revision": revision.number, "data": kept_data(revision)}


def system_url(system: System, ports: dict[str, int]) -> str:
    """Return the URL of the system, empty without an entry member."""
    service = next(iter(entry_service(system, ports)), None)
    port = at(service, "spec", "ports", 0, "port", default=_DEFAULT_PORT)
    return service_url(system.name, system.namespace, port) if service else ""


def port_of(spec: dict[str, Any]) -> int:
    """Return the port of an Agent with this spec."""
    return int(at(spec, "runtime", "port", default=_DEFAULT_PORT))


def _object(
    system: System, api_version: str, kind: str, name: str, labels: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": system.namespace,
            "labels": {
                # First the user's: they must not replace those by which the system finds its Agents.
                **(labels or {}),
                SYSTEM_LABEL: system.name,
                "app.kubernetes.io/part-of": system.name,
                "app.kubernetes.io/managed-by": "gitsync",
            },
            "ownerReferences": [owner_reference(system.name, system.uid, "MultiAgentSystem")],
        },
    }


def _url(system: System, member: Member, ports: dict[str, int]) -> str:
    name = agent_name(system, member)
    return service_url(name, system.namespace, ports.get(name, _DEFAULT_PORT))


def _channel(channel: Channel) -> dict[str, Any]:
    return compact(
        {
            "name": channel.name,
            "type": channel.type,
            "from": list(channel.from_),
            "to": list(channel.to),
            "timeoutSeconds": channel.timeout_seconds,
            "retries": channel.retries,
            "broker": channel.broker and {"type": channel.broker.type, "url": channel.broker.url},
            "topic": channel.topic,
            "delivery": channel.delivery if channel.broker else None,
        }
    )
