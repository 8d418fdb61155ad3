"""What tests of the operator ask of a World."""

from __future__ import annotations

import base64
from typing import Any

from gitsync.cli.data_folder import open_records
from gitsync.gate.policy import Policy
from gitsync.objects.manifest import Manifest
from gitsync.objects.user import User
from gitsync.ports import Clock
from gitsync.runtime.clock import SystemClock
from gitsync.services.reviews import Approval, ReviewRecords, ReviewService, held_plan
from tests.flow.environment import World
from tests.waiting import until

API = "agents.gitsync.dev/v1alpha1"
_PATH = "/apis/agents.gitsync.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}"


def status_of(world: World, name: str = "helper", kind: str = "Agent", namespace: str = "shop") -> dict[str, Any]:
    found = world.get(kind, name, namespace, api=API) or {}
    return found.get("status") or {}


def condition(
    world: World, type: str, name: str = "helper", kind: str = "Agent", namespace: str = "shop"
) -> dict[str, Any]:
    found = status_of(world, name, kind, namespace).get("conditions", [])
    return next((one for one in found if one["type"] == type), {})


def running(
    world: World, name: str = "helper", generation: int = 1, namespace: str = "shop", timeout: float = 20
) -> dict[str, Any]:
    """Wait until the Agent runs the revision of this generation, and nothing of a rollout is left."""
    until(
        lambda: _is_running(status_of(world, name, "Agent", namespace), generation),
        timeout,
        lambda: status_of(world, name, "Agent", namespace),
    )
    return status_of(world, name, "Agent", namespace)


def _is_running(status: dict[str, Any], generation: int) -> bool:
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    return (
        status.get("observedGeneration") == generation
        and status.get("phase") == "Running"
        and conditions.get("Reconciling") == "False"
        and status.get("currentRevision") == status.get("updateRevision") == status.get("lastGoodRevision")
    )


def delete(world: World, name: str, kind: str = "Agent", namespace: str = "shop", **options: str) -> None:
    plural = {"Agent": "agents", "MultiAgentSystem": "multiagentsystems"}[kind]
    path = _PATH.format(namespace=namespace, plural=plural, name=name)
    world.client.send("DELETE", path, options)


def annotate(world: World, name: str, kind: str = "Agent", namespace: str = "shop", **values: str) -> None:
    """Set annotations of an Agent or system below ``agents.gitsync.dev/``."""
    marks = {f"agents.gitsync.dev/{key.replace('_', '-')}": value for key, value in values.items()}
    manifest: Manifest = {"apiVersion": API, "kind": kind}
    manifest["metadata"] = {"name": name, "namespace": namespace, "annotations": marks}
    world.apply(manifest, manager="annotations")


def approve(world: World, name: str = "helper", kind: str = "Agent", namespace: str = "shop") -> None:
    """Approve the plan that waits, as ``gitsync agent approve`` does."""
    with open_records(world.folder / "data") as records:
        review(records, SystemClock(), world.get(kind, name, namespace, api=API) or {})
    annotate(world, name, kind, namespace, approve=status_of(world, name, kind, namespace)["plan"]["digest"])


def review(records: ReviewRecords, clock: Clock, manifest: Manifest) -> None:
    """Store the approval of the plan that waits."""
    app, plan = held_plan(manifest)
    ReviewService(records, clock, lambda app: Policy()).approve(app, plan, Approval(User("grace"), "checked"))


def secret(name: str, namespace: str = "shop", **data: str) -> Manifest:
    encoded = {key.replace("_", "-"): base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": encoded}


def config_map(name: str, namespace: str = "shop", **data: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def serving(world: World, track: str = "stable", name: str = "helper") -> dict[str, Any]:
    """Return the labels of the template of a workload, empty where there is none."""
    workload = name if track == "stable" else f"{name}-{track}"
    found = world.get("Deployment", workload, api="apps/v1") or {}
    labels: dict[str, Any] = found.get("spec", {}).get("template", {}).get("metadata", {}).get("labels", {})
    return labels


def writes(world: World) -> int:
    """Return how many writes the API server got, besides those of definitions and Leases."""
    requests = world.sandbox.requests
    others = ("customresourcedefinitions.apiextensions.k8s.io", "leases.coordination.k8s.io")
    return sum(
        requests(verb=verb) - sum(requests(verb=verb, resource=other) for other in others)
        for verb in ("create", "update", "patch", "delete")
    )
