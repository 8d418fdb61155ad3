"""Agents that are ordinary Deployments answer their cases before a changed one is applied."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.objects.keys import EVALUATION_LABEL
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.processes.environment import Image
from gitsync.sandbox.processes.runtime import has_loopback_network
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(not has_loopback_network(), reason="the system has no addresses of 127.0.0.0/8"),
    pytest.mark.timeout(180),
]

SOURCE = {"PYTHONPATH": str(Path(__file__).parents[2])}
IMAGES = {
    "registry.example.com/triage": Image(("python", "-m", "tests.flow.stub_agent"), env=SOURCE),
    "gitsync": Image(("gitsync",), env=SOURCE),
}
PAGE = Path(__file__).parents[2] / "docs" / "agents-platforms.md"
SECTION = "## Evaluation before the apply"


def documented() -> str:
    """Return the manifests of the page: the Deployment, and its cases."""
    section = PAGE.read_text(encoding="utf-8").partition(SECTION)[2]
    return section.partition("```yaml\n")[2].partition("```")[0]


def prompt(text: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: triage-prompt}}\ndata: {{system.md: {text}}}\n"


SERVICE = """apiVersion: v1
kind: Service
metadata: {name: triage}
spec:
  selector: {app: triage}
  ports: [{port: 80, targetPort: 8080}]
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose sandbox runs the agent and the evaluation as processes; the first prompt has passed and serves."""
    with Sandbox(images=IMAGES) as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        commit = made.repo.commit(
            "triage",
            {
                "shop/agent.yaml": documented(),
                "shop/prompt.yaml": prompt("be polite"),
                "shop/service.yaml": SERVICE,
            },
        )
        made.application()
        made.start()
        made.synced(commit, timeout=60)
        yield made
        made.close()


def evaluations(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.status().get("evaluations") or []
    return found


def copies(world: World) -> list[Manifest]:
    """Return what evaluations made and is still there."""
    everything = world.sandbox.call(lambda cluster: [*cluster.everything("shop")])
    return [item for item in everything if EVALUATION_LABEL in (at(item, "metadata", "labels") or {})]


def live_prompt(world: World) -> str:
    return str(at(world.get("ConfigMap", "triage-prompt"), "data", "system.md"))


def test_a_prompt_that_passes_is_applied_and_its_copy_goes(world: World) -> None:
    assert [it["result"] for it in evaluations(world)] == ["Passed"]
    commit = world.repo.commit("nicer", {"shop/prompt.yaml": prompt("be very polite")})
    world.synced(commit, timeout=60)
    assert live_prompt(world) == "be very polite"
    assert [(it["result"], it["passed"], it["attempt"]) for it in evaluations(world)][-1] == ("Passed", 1, 1)
    until(lambda: not copies(world), 30, lambda: [it["kind"] for it in copies(world)])


def test_one_that_fails_keeps_what_serves_and_the_rest_of_the_commit_is_applied(world: World) -> None:
    world.repo.commit(
        "rude", {"shop/prompt.yaml": prompt("be rude"), "shop/other.yaml": prompt("x").replace("triage", "other")}
    )
    until(lambda: world.condition("Ready").get("reason") == "EvaluationFailed", 60, world.status)
    message = world.condition("Ready")["message"]
    assert message == (
        "the evaluation of Deployment shop/triage failed: 0 of 1 cases passed; failed: manners; what serves stays"
    )
    assert message in PAGE.read_text(encoding="utf-8")
    assert live_prompt(world) == "be polite"
    assert world.get("ConfigMap", "other-prompt") is not None
    until(lambda: not copies(world), 30, lambda: [it["kind"] for it in copies(world)])
    # one verdict for each digest: the application is reconciled again, and no second Job is made
    assert [it["attempt"] for it in evaluations(world)][-1] == 1
    good = world.repo.commit("polite again", {"shop/prompt.yaml": prompt("be polite and short")})
    world.synced(good, timeout=60)


def test_one_that_does_not_answer_is_asked_again_and_its_copy_goes_with_a_newer_commit(world: World) -> None:
    impatient = documented().replace("timeoutSeconds: 5", "timeoutSeconds: 5\n    startSeconds: 1")
    world.repo.commit("down", {"shop/prompt.yaml": prompt("down politely"), "shop/agent.yaml": impatient})
    until(lambda: "is repeated" in world.condition("Ready").get("message", ""), 60, world.status)
    newest = evaluations(world)[-1]
    assert (newest["result"], newest["attempt"]) == ("Inconclusive", 1)
    assert newest["retryAt"] > newest["at"]
    assert live_prompt(world) == "be polite"
    world.repo.commit("polite", {"shop/prompt.yaml": prompt("be polite")})
    until(lambda: world.status().get("phase") == "Synced", 60, world.status)
    until(lambda: not copies(world), 30, lambda: [it["kind"] for it in copies(world)])


def test_a_controller_that_ends_meanwhile_finds_the_copy_and_its_verdict(world: World) -> None:
    commit = world.repo.commit("nicer", {"shop/prompt.yaml": prompt("be very polite")})
    job = until(lambda: next((it for it in copies(world) if it["kind"] == "Job"), None), 60, world.status)
    world.stop()
    assert live_prompt(world) == "be polite"
    world.start()
    world.synced(commit, timeout=60)
    assert live_prompt(world) == "be very polite"
    assert [(it["attempt"], it["result"]) for it in evaluations(world)][-1] == (1, "Passed")
    until(lambda: not copies(world), 30, lambda: [it["kind"] for it in copies(world)])
    assert world.get("Job", job["metadata"]["name"], api="batch/v1") is None
    # what others change is restored at once: no verdict is asked for what has passed
    world.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "triage-prompt", "namespace": "shop"},
            "data": {"system.md": "be evil"},
        },
        manager="another",
    )
    until(lambda: live_prompt(world) == "be very polite", 30, lambda: live_prompt(world))
    assert copies(world) == []
