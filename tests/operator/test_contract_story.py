"""A contract in the cluster: a real MCP server is compared, drift holds a new revision, and a new lock lets it go."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gitsync.cli.main import app
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.processes.environment import read_images
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import condition, config_map, running, status_of
from tests.waiting import until

pytest.importorskip("a2a", reason="the extra agents is not installed")
pytestmark = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")

TICKETS: list[Manifest] = [
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "tickets-mcp", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "tickets"}},
            "template": {
                "metadata": {"labels": {"app": "tickets"}},
                "spec": {"containers": [{"name": "mcp", "image": "registry.example.com/agents/tickets-mcp:1"}]},
            },
        },
    },
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "tickets-mcp", "namespace": "shop"},
        "spec": {"selector": {"app": "tickets"}, "ports": [{"port": 8080}]},
    },
]
TOOL = {"name": "tickets", "type": "MCP", "mcp": {"serviceRef": {"name": "tickets-mcp", "port": 8080, "path": "/mcp"}}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    images = read_images(Path(str(files("gitsync.demo_agents") / "images.yaml")))
    with Sandbox(images=images) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()


def helper(prompt: str) -> Manifest:
    return agent(
        model={"provider": "Bedrock", "id": "m"},
        tools=[TOOL],
        prompt={"text": prompt},
        runtime={"image": "registry.example.com/agents/server:1"},
        contract={"lock": {"name": "helper-contract", "key": "contracts.lock"}, "image": "gitsync:1"},
    )


def locked(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the lock that ``gitsync agent lock`` writes for the running server."""
    (folder / "agent.yaml").write_text(yaml.safe_dump(helper("Help.")))
    monkeypatch.setenv("http_proxy", world.sandbox.proxy_url)
    assert until(lambda: CliRunner().invoke(app, ["agent", "lock", str(folder)]).exit_code == 0, 30)
    monkeypatch.delenv("http_proxy")
    found: dict[str, Any] = yaml.safe_load((folder / "contracts.lock").read_text())
    return found


@pytest.mark.timeout(300)
def test_drift_holds_a_revision_until_the_lock_has_it(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start()
    for manifest in TICKETS:
        world.apply(manifest)
    (tmp_path / "folder").mkdir()
    lock = locked(world, tmp_path / "folder", monkeypatch)
    tools = lock["agents"]["shop/helper"]["servers"]["tickets"]["tools"]
    assert set(tools) == {"find_order", "close_ticket"}
    world.apply(config_map("helper-contract", **{"contracts.lock": yaml.safe_dump(lock)}))
    world.apply(helper("Help."))
    first = running(world, timeout=60)
    assert condition(world, "ContractDrift")["status"] == "False", first

    # A tool that the lock does not have is one that the server has added since.
    reviewed = tools.pop("close_ticket")
    world.apply(config_map("helper-contract", **{"contracts.lock": yaml.safe_dump(lock)}))
    world.apply(helper("Help well."))
    until(lambda: condition(world, "Stalled").get("reason") == "ContractDrift", 60, lambda: status_of(world))
    held = status_of(world)
    assert held["currentRevision"] == first["currentRevision"]
    assert held["contract"]["class"] == "Dangerous"
    assert held["contract"]["differences"][0]["place"] == "tools.tickets.close_ticket"

    tools["close_ticket"] = reviewed
    world.apply(config_map("helper-contract", **{"contracts.lock": yaml.safe_dump(lock)}))
    assert running(world, generation=2, timeout=60)["currentRevision"] != first["currentRevision"]
