"""Both examples, which set every field, on a sandbox: their live children and their status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gitsync.agents.keys import INPUTS, SPEC
from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.reader import read_all
from tests.agents.factories import changed, example
from tests.flow.environment import World
from tests.operator.agent_world import API, annotate, running, status_of
from tests.operator.surroundings import surround
from tests.waiting import until

CASES = Path(__file__).resolve().parents[1] / "agents" / "expansion" / "cases" / "full.yaml"
NAMESPACE = "support"
MEMBERS = {
    "observedGeneration",
    "phase",
    "replicas",
    "readyReplicas",
    "updatedReplicas",
    "selector",
    "currentRevision",
    "updateRevision",
    "lastGoodRevision",
    "url",
    "referencesHash",
    "rollout",
    "validation",
    "tools",
    "children",
    "conditions",
}
CONDITIONS = {
    "Accepted": "True",
    "ReferencesResolved": "True",
    "StorageBound": "True",
    "ModelCached": "True",
    "Validated": "True",
    "ScalingActive": "True",
    "Reconciling": "False",
    "Stalled": "False",
    "Ready": "True",
}
SYSTEM_CONDITIONS = {
    "TopologyValid": "True",
    "ChannelsReady": "True",
    "Reconciling": "False",
    "Stalled": "False",
    "Ready": "True",
}
REFERENCES, UID = "4b1d7e90a2c3", "0001"
"""What the manifests have in place of what a cluster assigns."""


def missing(wanted: Any, found: Any, path: str = "") -> list[str]:
    """Return the paths of members that are absent or another value."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return [line for key in wanted for line in missing(wanted[key], found.get(key), f"{path}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(wanted) == len(found):
        pairs = zip(wanted, found, strict=True)
        return [line for index, pair in enumerate(pairs) for line in missing(*pair, f"{path}[{index}]")]
    return [] if wanted == found else [f"{path}: {wanted!r} is {found!r}"]


def prepared(world: World) -> None:
    world.namespace(NAMESPACE)
    surround(world, NAMESPACE)


def expected(world: World, status: dict[str, Any]) -> list[Manifest]:
    """Return the manifests of the example with the uid, the references and the revision of this cluster."""
    text = CASES.read_text(encoding="utf-8")
    uid = (world.get("Agent", "triage", NAMESPACE, API) or {})["metadata"]["uid"]
    revision = next(
        one["metadata"]["name"] for one in read_all(text, CASES.name) if one["kind"] == "ControllerRevision"
    )
    text = text.replace(revision, status["currentRevision"])
    text = text.replace(revision.removeprefix("triage-"), status["currentRevision"].removeprefix("triage-"))
    text = text.replace(REFERENCES, status["referencesHash"]).replace(f"uid: '{UID}'", f"uid: {uid}")
    found: list[Manifest] = list(read_all(text, CASES.name))
    for one in found:
        # The hash of the inputs contains that of the references, and the API server adds defaults to the spec.
        for mark in (INPUTS, SPEC):
            one["metadata"].get("annotations", {}).pop(mark, None)
    return found


def test_every_field_of_an_agent_reaches_its_children_and_its_status(world: World) -> None:
    prepared(world)
    world.start()
    world.apply(example())
    status = running(world, "triage", namespace=NAMESPACE, timeout=60)
    for manifest in expected(world, status):
        name, kind = manifest["metadata"]["name"], manifest["kind"]
        live = world.get(kind, name, NAMESPACE, manifest["apiVersion"])
        assert live is not None, (kind, name)
        assert missing(manifest, live, f"{kind}/{name}") == []
    assert status.keys() >= MEMBERS
    assert [one["name"] for one in status["tools"]] == ["tickets", "researcher"]
    assert {one["type"]: one["status"] for one in status["conditions"]}.items() >= CONDITIONS.items()
    assert status["url"] == "http://triage.support.svc.cluster.local:8080"
    assert all(one["observedGeneration"] == 1 for one in status["conditions"])
    assert status["ready"] == f"{status['replicas']}/{status['replicas']}"
    assert status["validation"]["result"] == "Passed"


def test_a_suspended_example_keeps_its_volumes_and_its_history(world: World) -> None:
    prepared(world)
    world.start()
    world.apply(changed(example(), "spec.suspend", True))
    until(lambda: status_of(world, "triage", namespace=NAMESPACE).get("phase") == "Suspended", 30)
    kinds = {one["kind"] for one in status_of(world, "triage", namespace=NAMESPACE)["children"]}
    assert {"StatefulSet", "PersistentVolumeClaim", "NetworkPolicy"} <= kinds
    assert "HorizontalPodAutoscaler" not in kinds
    stateful = world.get("StatefulSet", "triage", NAMESPACE, "apps/v1") or {}
    assert stateful["spec"]["replicas"] == 0


def test_every_field_of_a_system_reaches_its_members_and_its_status(world: World) -> None:
    prepared(world)
    world.start()
    world.apply(example())
    running(world, "triage", namespace=NAMESPACE, timeout=60)
    manifest = example("multiagentsystem")
    world.apply(manifest)
    name = manifest["metadata"]["name"]

    def status() -> dict[str, Any]:
        return status_of(world, name, "MultiAgentSystem", NAMESPACE)

    def is_running() -> bool:
        agent = status_of(world, "triage", namespace=NAMESPACE)
        if (agent.get("rollout") or {}).get("stage") == "Update":  # its topology is a new revision, a canary
            annotate(world, "triage", namespace=NAMESPACE, promote=agent["updateRevision"])
        return status().get("phase") == "Running"

    until(is_running, 60, status)
    # Members may still be updated while the system runs; its conditions tell when they are settled.
    until(lambda: {one["type"]: one["status"] for one in status()["conditions"]} == SYSTEM_CONDITIONS, 60, status)
    found = status()
    assert found["waves"] == [["researcher", "billing"], ["triage"], ["front-door"]]
    assert (found["totalAgents"], found["readyAgents"], found["currentWave"]) == (4, 4, 3)
    assert found["url"] == "http://support-desk.support.svc.cluster.local:8080"
    assert found["channels"] == [
        {"name": channel, "ready": True} for channel in ("hand-over", "ask-research", "ticket-events")
    ]
    assert {one["name"]: one["agent"] for one in found["members"]} == {
        "front-door": "support-desk-front-door",
        "triage": "triage",
        "researcher": "support-desk-researcher",
        "billing": "support-desk-billing",
    }

    front = world.get("Agent", f"{name}-front-door", NAMESPACE, API) or {}
    assert front["spec"]["model"]["id"] == manifest["spec"]["defaults"]["model"]["id"]
    assert front["spec"]["replicas"] == 2
    assert (world.get("Service", name, NAMESPACE) or {})["spec"]["selector"] == {
        "agents.gitsync.dev/agent": f"{name}-front-door",
        "agents.gitsync.dev/serving": "true",
    }
    policy = world.get("NetworkPolicy", "triage", NAMESPACE, "networking.k8s.io/v1") or {}
    senders = [
        at["podSelector"]["matchLabels"].get("agents.gitsync.dev/agent")
        for rule in policy["spec"]["ingress"]
        for at in rule["from"]
        if "podSelector" in at
    ]
    assert f"{name}-front-door" in senders
