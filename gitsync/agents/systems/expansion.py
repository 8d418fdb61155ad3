"""Expand a MultiAgentSystem into its Agents, its topology and its Service."""

from __future__ import annotations

import json
from typing import Any

from gitsync.agents.keys import AGENT_LABEL, SERVING_LABEL, SYSTEM_LABEL, compact, owner_reference, service_url
from gitsync.agents.model.system import Channel, Member, System
from gitsync.agents.systems.members import agent_name, member_spec
from gitsync.agents.systems.rollout import SystemRevision, kept_data
from gitsync.objects.keys import AGENTS_GROUP, VERSION
from gitsync.objects.manifest import Manifest, at

_DEFAULT_PORT = 8080


def member_agent(system: System, member: Member) -> Manifest:
    """Return the Agent of an inline member."""
    labels = dict(member.template.labels) if member.template else {}
    return {
        **_object(system, f"{AGENTS_GROUP}/{VERSION}", "Agent", agent_name(system, member), labels),
        "spec": member_spec(system, member),
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
