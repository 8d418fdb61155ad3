"""The support desk of the demo as Agents, from Git to a running system."""

from __future__ import annotations

from pathlib import Path

from tests.flow.environment import World
from tests.operator.agent_world import status_of
from tests.waiting import until

OVERLAY = Path(__file__).resolve().parents[2] / "overlays" / "agents"
NAMESPACE = "support-agents"


def test_the_support_desk_runs_as_agents(world: World) -> None:
    files = {f"agents/{file.name}": file.read_text(encoding="utf-8") for file in OVERLAY.iterdir()}
    commit = world.repo.commit("support desk", dict(files))
    destination = {"namespace": NAMESPACE, "allowClusterScoped": True}
    world.grant("Namespace")
    world.application("agents", destination=destination, risk={"approval": "Never"})
    world.start()
    world.synced(commit, "agents", 20)

    def desk() -> dict[str, object]:
        return status_of(world, "support-desk", "MultiAgentSystem", NAMESPACE)

    until(lambda: desk().get("phase") == "Running", 40, desk)
    assert desk()["ready"] == "4/4"
    assert desk()["waves"] == [["researcher", "billing"], ["triage"], ["front-door"]]
    until(
        lambda: world.status("agents")["health"] == "Healthy", 20, lambda: (world.condition("Ready", "agents"), desk())
    )
    triage = status_of(world, "triage", namespace=NAMESPACE)
    assert triage["tools"][0]["address"] == "http://support-desk-researcher.support-agents.svc.cluster.local:8080"
