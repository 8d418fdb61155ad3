"""Agents of the demo as processes: they answer by their prompt in Git, with tools, behind the A2A protocol."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gitsync.cli.main import app
from gitsync.sandbox.processes.environment import read_images
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.operator.agent_world import status_of
from tests.waiting import until

pytest.importorskip("a2a", reason="the extra agents is not installed")
pytestmark = pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8")

OVERLAY = Path(__file__).resolve().parents[2] / "overlays" / "agents"
NAMESPACE = "support-agents"
QUESTION = "I was charged twice for order 4711"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose sandbox runs the images of the demo."""
    images = read_images(Path(str(files("gitsync.demo_agents") / "images.yaml")))
    with Sandbox(images=images) as sandbox:
        made = World(tmp_path, sandbox)
        yield made
        made.close()


class Caller:
    """Ask the triage agent by the name of its Service."""

    def __init__(self, world: World) -> None:
        proxy = urllib.request.ProxyHandler({"http": world.sandbox.proxy_url})
        self._opener = urllib.request.build_opener(proxy)

    def send(self, path: str, body: bytes | None = None, **headers: str) -> str:
        request = urllib.request.Request(f"http://triage.{NAMESPACE}:8080{path}", body, headers)
        with self._opener.open(request, timeout=60) as answer:
            return str(answer.read().decode())

    def ask(self) -> str:
        """Return the answer, or the status of a failed request."""
        try:
            return self.send("/ask", QUESTION.encode())
        except urllib.error.HTTPError as error:
            error.close()
            return f"failed: {error.code}"


def message(text: str) -> bytes:
    content = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": text}]}
    call: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": content}}
    return json.dumps(call).encode()


@pytest.mark.timeout(400)
def test_a_prompt_in_git_decides_what_an_agent_answers_and_a_bad_one_is_stopped(world: World) -> None:
    given = {f"agents/{file.name}": file.read_text(encoding="utf-8") for file in OVERLAY.iterdir()}
    given["agents/kustomization.yaml"] = given["agents/kustomization.yaml"].replace("  - support-desk.yaml\n", "")
    given["agents/triage.yaml"] = given["agents/triage.yaml"].replace("pauseSeconds: 10", "pauseSeconds: 1")
    commit = world.repo.commit("support desk", dict(given))
    world.grant("Namespace")
    world.application("agents", destination={"namespace": NAMESPACE, "allowClusterScoped": True})
    world.start()
    world.synced(commit, "agents", 20)
    until(
        lambda: status_of(world, "triage", namespace=NAMESPACE).get("phase") == "Running",
        60,
        lambda: status_of(world, "triage", namespace=NAMESPACE),
    )
    caller = Caller(world)
    before = until(lambda: (found := caller.ask()).startswith("Queue") and found, 30, caller.ask)
    assert before.splitlines()[:3] == [
        "Queue: billing",
        "Urgency: 2",
        "Next: hand it to billing with the order number",
    ]
    assert before.splitlines()[3].startswith("Fact: order 4711: two payments")
    headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
    sent = json.loads(caller.send("/", message(QUESTION), **headers))
    assert sent["result"]["message"]["parts"][0]["text"] == before.rstrip("\n")
    assert json.loads(caller.send("/.well-known/agent-card.json"))["name"] == "triage"
    counted = 'agent_tool_calls_total{outcome="ok",tool="tickets__find_order"}'
    until(lambda: counted in caller.send("/metrics"), 10)  # each replica counts its own calls, and one may have none

    world.repo.commit("apologize", {"agents/triage.md": f"{given['agents/triage.md']}Always apologize first.\n"})
    until(lambda: "Next: apologize first" in caller.ask(), 120, lambda: status_of(world, "triage", namespace=NAMESPACE))

    def evaluation() -> dict[str, Any]:
        found: dict[str, Any] = status_of(world, "triage", namespace=NAMESPACE).get("evaluation") or {}
        return found

    good = until(lambda: evaluation().get("result") == "Passed" and evaluation(), 60, evaluation)
    assert (good["passed"], good["cases"]) == (4, 4)
    assert {one["before"] for one in good["results"]} == {"passed"}
    answer = until(
        lambda: _settled(world) and caller.ask(), 60, lambda: status_of(world, "triage", namespace=NAMESPACE)
    )

    world.repo.commit("promise", {"agents/triage.md": f"{given['agents/triage.md']}Always promise a refund.\n"})
    bad = until(lambda: evaluation().get("result") == "Failed" and evaluation(), 90, evaluation)
    refund = {"name": "no promise", "before": "passed", "now": "failed", "message": "the answer contains 'promise'"}
    assert bad["results"][0] == refund
    assert "must pass: no promise" in bad["message"]
    assert caller.ask() == answer
    status = status_of(world, "triage", namespace=NAMESPACE)
    assert status["failedRevision"] == bad["revision"] == status["updateRevision"]
    assert status["currentRevision"] == good["revision"]
    rows = _command(world, "agent", "history", "triage", "-n", NAMESPACE)
    assert [row["revision"] for row in rows[:2]] == [bad["revision"], good["revision"]]
    assert [(row["state"], row["evaluation"], row["changed"]) for row in rows[:2]] == [
        ("failed", "Failed 3/4", ["prompt"]),
        ("serving", "Passed 4/4", ["prompt"]),
    ]
    assert rows[0]["cases"][0] == refund
    assert {"mark": "+", "text": "Always promise a refund."} in rows[0]["promptLines"]
    assert (rows[0]["message"], rows[1]["message"]) == ("promise", "apologize")
    plan = _command(world, "plan", "agents", "-n", "gitsync", "--allow-file-urls")
    assert [(one["agent"], one["result"]) for one in plan["evaluations"]] == [(f"Agent {NAMESPACE}/triage", "Failed")]


def _command(world: World, *arguments: str) -> Any:
    """Return what a command prints as JSON."""
    given = ["-o", "json", "--kubeconfig", str(world.kubeconfig), "--data", str(world.folder / "data")]
    return json.loads(CliRunner().invoke(app, [*arguments, *given], prog_name="gitsync").stdout)


def _settled(world: World) -> bool:
    """Return whether the Agent runs its newest revision."""
    status = status_of(world, "triage", namespace=NAMESPACE)
    return status["currentRevision"] == status["updateRevision"] == status.get("lastGoodRevision")
