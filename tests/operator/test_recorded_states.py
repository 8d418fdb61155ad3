"""
What an older gitsync left in a cluster, and what this one makes of it.

``recorded/52b5f01.json`` has the objects that the controller of that commit made of one Agent of each kind, with their
statuses, read from a sandbox once the Agent was Running. None reads a Secret: that version hashed its uid and version,
which are others on another API server; ``test_waves.py`` has an upgrade with such a hash. Claims are without the volume
that they were bound to, which is on that sandbox alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitsync.controllers.crds import CrdInstaller
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, at
from tests.flow.environment import World
from tests.operator.agent_world import API, running, status_of
from tests.waiting import until

STATE: dict[str, list[Manifest]] = json.loads(
    (Path(__file__).parent / "recorded" / "52b5f01.json").read_text(encoding="utf-8")
)
ASSIGNED = ("uid", "creationTimestamp", "generation")
WORKLOADS = ("deployments", "statefulsets")


def restore(world: World, kind: str) -> None:
    """Create what was recorded; the API server gives the Agent another uid, which its children name as their owner."""
    recorded = next(manifest for manifest in STATE[kind] if manifest["kind"] == "Agent")
    until(lambda: _is_created(world, recorded))
    live = world.get("Agent", "helper", api=API) or {}
    text = json.dumps(STATE[kind]).replace(recorded["metadata"]["uid"], live["metadata"]["uid"])
    for manifest in json.loads(text):
        status = manifest.pop("status", None)
        if manifest["kind"] == "Agent":
            path = "/apis/agents.gitsync.dev/v1alpha1/namespaces/shop/agents/helper/status"
            world.client.send("PUT", path, {**live, "status": status})
            continue
        metadata = {
            key: value for key, value in manifest["metadata"].items() if key not in ("uid", "creationTimestamp")
        }
        manager = AGENTS_MANAGER if metadata.get("ownerReferences") else "setup"
        world.cluster.apply({**manifest, "metadata": metadata}, manager=manager, force=True)


def _is_created(world: World, recorded: Manifest) -> bool:
    metadata = {"name": "helper", "namespace": "shop"}
    world.cluster.definitions_changed()
    if world.cluster.resource("agents.gitsync.dev", "v1alpha1", "Agent") is None:
        return False
    world.apply({"apiVersion": API, "kind": "Agent", "metadata": metadata, "spec": recorded["spec"]})
    return True


def served(world: World) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the templates of the workloads, and the Pods that are ready."""
    lists = (world.client.get(f"/apis/apps/v1/namespaces/shop/{name}")["items"] for name in WORKLOADS)
    templates = {live["metadata"]["name"]: live["spec"]["template"] for items in lists for live in items}
    pods = world.client.get("/api/v1/namespaces/shop/pods")["items"]
    ready = {"type": "Ready", "status": "True"}
    return templates, frozenset(
        pod["metadata"]["uid"]
        for pod in pods
        if any(one.items() >= ready.items() for one in at(pod, "status", "conditions", default=()))
    )


@pytest.mark.parametrize("kind", STATE)
def test_an_upgrade_from_an_old_version_restarts_no_agent(world: World, kind: str) -> None:
    install(world)
    restore(world, kind)
    recorded = status_of(world)
    until(lambda: len(served(world)[1]) == recorded["replicas"], describe=lambda: served(world))
    before = served(world)
    world.start()
    # Of the newer version alone.
    until(lambda: status_of(world).get("expansion"), describe=lambda: status_of(world))
    world.quiet()
    assert served(world) == before
    status = running(world)
    assert status["currentRevision"] == status["updateRevision"] == recorded["currentRevision"]


def install(world: World) -> None:
    """Install the definitions, as the older version had."""
    CrdInstaller(world.cluster, install=True).start()
