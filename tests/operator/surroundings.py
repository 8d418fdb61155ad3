"""What the example of an Agent names: Secrets, a ConfigMap, Agents, a RuntimeClass and ServiceMonitor as a kind."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import config_map, secret
from tests.waiting import until

SECRETS: dict[str, dict[str, str]] = {
    "triage-model": {"api_key": "x"},
    "triage-fallback": {"api_key": "x"},
    "tickets-mcp": {"authorization": "x"},
    "pg-ca": {"ca.crt": "x"},
    "triage-pg": {"username": "x", "password": "x"},
    "triage-redis": {"password": "x"},
    "triage-sentry": {"dsn": "x"},
    "registry": {".dockerconfigjson": "{}"},
    "support-nats": {"token": "x"},
}
PROMPT = "Sort tickets.\n"


SERVICES = {
    "qwen3": ("models", 8000),
    "pg": ("data", 5432),
    "redis": ("data", 6379),
    "otel-collector": ("observability", 4317),
}
"""Namespaces and ports of the Services that URLs and hosts of the example name."""
PRICES = '{"qwen3-32b-instruct": {"input": 0.6, "output": 2.4}}'


def surround(world: World, namespace: str = "shop") -> None:
    """Create everything that the example names."""
    for other in sorted({other for other, _ in SERVICES.values()}):
        world.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}})
    for name, (other, port) in {**SERVICES, "tickets-mcp": (namespace, 8080)}.items():
        metadata = {"name": name, "namespace": other}
        world.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [{"port": port}]}})
    for name, data in SECRETS.items():
        world.apply(secret(name, namespace, **data))
    world.apply(config_map("triage-prompt", namespace, **{"system.md": PROMPT}))
    world.apply(config_map("model-prices", namespace, **{"prices.json": PRICES}))
    world.apply(agent("researcher", namespace))
    caller = {"name": "triage", "type": "Agent", "agentRef": {"name": "triage"}}
    world.apply(agent("front-door", namespace, tools=[caller]))
    handler = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "runsc"}
    world.apply({**handler, "metadata": {"name": "gvisor"}})
    standard = until(lambda: world.client.get("/apis/storage.k8s.io/v1/storageclasses")["items"])[0]
    kept = {key: standard[key] for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode") if key in standard}
    world.apply(
        {**kept, "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "shared-fast"}}
    )
    for node in until(lambda: world.client.get("/api/v1/nodes")["items"]):
        metadata = {"name": node["metadata"]["name"], "labels": {"pool": "agents"}}
        world.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    define(world, "monitoring.coreos.com", "ServiceMonitor")


def define(world: World, group: str, kind: str) -> None:
    """Define a kind of another project, with any content, and wait until it is served."""
    anything: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
    definition: Manifest = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    world.apply(definition)
    until(lambda: _is_served(world, group, kind))


def _is_served(world: World, group: str, kind: str) -> bool:
    world.cluster.definitions_changed()
    return world.cluster.resource(group, "v1", kind) is not None
