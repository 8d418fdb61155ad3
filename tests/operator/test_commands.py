"""``gitsync agent`` on a sandbox: what each action does, and what it reports where it cannot do anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from gitsync.agents.keys import UPGRADE
from gitsync.cli.main import app
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import condition, running, status_of
from tests.waiting import until

CANARY = {"type": "Canary", "canary": {"steps": [{"weight": 50, "pauseSeconds": 3600}, {"weight": 100}]}}
COLOURS = {"type": "BlueGreen", "blueGreen": {"promotion": "Manual", "keepOldSeconds": 3600}}
Command = Callable[..., Result]


@pytest.fixture
def command(world: World) -> Command:
    """Run ``gitsync agent ACTION NAME`` on the cluster and data of the world."""
    runner = CliRunner()

    def run(*arguments: str) -> Result:
        given = ["-n", "shop", "--kubeconfig", str(world.kubeconfig), "--data", str(world.folder / "data")]
        return runner.invoke(app, ["agent", *arguments, *given], prog_name="gitsync")

    return run


def version(image: str, update: dict[str, Any]) -> dict[str, Any]:
    return agent(runtime={"image": f"registry.internal/agents/helper:{image}"}, replicas=2, update=update)


def waiting(world: World, update: dict[str, Any]) -> str:
    """Start a rollout that waits for a user, and return the revision that serves meanwhile."""
    world.start()
    world.apply(version("1.0", update))
    first: str = running(world)["currentRevision"]
    world.apply(version("1.1", update))
    stage = {"Canary": "canary", "BlueGreen": "green"}[update["type"]]
    until(lambda: has_ready_pods(world, f"helper-{stage}"), 20, lambda: status_of(world))
    return first


def has_ready_pods(world: World, workload: str) -> bool:
    found = world.get("Deployment", workload, api="apps/v1") or {}
    return bool(found.get("status", {}).get("readyReplicas"))


@pytest.mark.parametrize("update", [CANARY, COLOURS], ids=["canary", "blue-green"])
def test_promote_ends_the_wait_of_a_rollout(world: World, command: Command, update: dict[str, Any]) -> None:
    first = waiting(world, update)
    revision = status_of(world)["updateRevision"]
    assert (status_of(world)["currentRevision"], revision != first) == (first, True)
    done = command("promote", "helper", "--by", "grace", "--reason", "looks good")
    assert (done.exit_code, done.stdout) == (0, f"Agent shop/helper: promote {revision}\n")
    until(lambda: status_of(world)["currentRevision"] == revision, 20, lambda: status_of(world))


def test_a_revision_that_serves_is_not_promoted_and_is_switched_back_by_abort(world: World, command: Command) -> None:
    first = waiting(world, COLOURS)
    revision = status_of(world)["updateRevision"]
    command("promote", "helper")
    until(lambda: status_of(world)["currentRevision"] == revision, 20, lambda: status_of(world))
    assert status_of(world)["rollout"]["revision"] == revision  # the old Pods stay for keepOldSeconds
    done = command("promote", "helper")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Agent shop/helper: revision {revision} is the current one already" in done.stderr
    assert "revert its change in Git" in done.stderr
    assert command("abort", "helper").exit_code == 0
    until(lambda: status_of(world)["currentRevision"] == first, 20, lambda: status_of(world))
    assert status_of(world)["failedRevision"] == revision


@pytest.mark.parametrize("update", [CANARY, COLOURS], ids=["canary", "blue-green"])
def test_abort_returns_to_the_serving_revision(world: World, command: Command, update: dict[str, Any]) -> None:
    first = waiting(world, update)
    revision = status_of(world)["updateRevision"]
    done = command("abort", "helper")
    assert (done.exit_code, done.stdout) == (0, f"Agent shop/helper: abort {revision}\n")
    until(lambda: condition(world, "Stalled").get("reason") == "RolledBack", 20, lambda: status_of(world))
    assert "a user aborted it" in condition(world, "Stalled")["message"]
    assert (status_of(world)["currentRevision"], status_of(world)["failedRevision"]) == (first, revision)
    again = command("abort", "helper")
    assert (again.exit_code, "no rollout is in progress" in again.stderr) == (2, True)


def test_restart_replaces_the_pods_and_keeps_the_old_revision_in_the_history(world: World, command: Command) -> None:
    world.start()
    world.apply(agent())
    first = running(world)["currentRevision"]
    assert command("restart", "helper").exit_code == 0
    until(lambda: status_of(world)["currentRevision"] != first)
    running(world)
    states = {row["revision"]: row["state"] for row in json.loads(command("history", "helper", "-o", "json").stdout)}
    assert states == {first: "", status_of(world)["currentRevision"]: "serving"}
    assert first in command("history", "helper").stdout


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ("promote", "no rollout is in progress"),
        ("abort", "no rollout is in progress"),
        ("approve", "no plan waits for approval"),
        ("backup", "has no spec.backup"),
        ("start", "is not stopped"),
        ("retry", "no revision waits for its checks"),
    ],
)
def test_an_agent_with_nothing_to_act_on_is_named_and_stays(
    world: World, command: Command, action: str, why: str
) -> None:
    world.apply(agent())
    before = resource_version(world)
    done = command(action, "helper")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Agent shop/helper: {why}" in done.stderr
    assert resource_version(world) == before


def resource_version(world: World) -> str:
    found = world.get("Agent", "helper", api="agents.gitsync.dev/v1alpha1") or {}
    return str(found["metadata"]["resourceVersion"])


@pytest.mark.parametrize("action", ["promote", "abort", "restart", "approve", "backup", "start", "retry", "history"])
def test_an_unknown_name_is_reported_with_where_to_find_names(world: World, command: Command, action: str) -> None:
    done = command(action, "other")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Agent shop/other: does not exist" in done.stderr
    assert "kubectl get agents.agents.gitsync.dev,multiagentsystems.agents.gitsync.dev -A" in done.stderr
    assert world.get("Agent", "other", api="agents.gitsync.dev/v1alpha1") is None


def test_stop_ends_all_pods_at_once_until_start(world: World, command: Command) -> None:
    world.start()
    world.apply(agent(replicas=2))
    running(world)
    refused = command("stop", "helper")
    assert (refused.exit_code, "needs a reason" in refused.stderr) == (2, True)
    assert command("stop", "helper", "--by", "grace", "--reason", "it leaks data").exit_code == 0
    until(lambda: status_of(world).get("phase") == "Suspended", 20, lambda: status_of(world))
    assert "stopped by grace: it leaks data" in condition(world, "Ready")["message"]
    world.apply(agent(replicas=3, model={"provider": "OpenAICompatible", "id": "m", "endpoint": "http://other:1/v1"}))
    until(lambda: replicas_of(world) == 0)
    assert status_of(world)["phase"] == "Suspended"
    world.apply(agent(replicas=3))
    assert command("start", "helper").exit_code == 0
    until(lambda: status_of(world).get("ready") == "3/3", 20, lambda: status_of(world))


def replicas_of(world: World) -> int:
    found = world.get("Deployment", "helper", api="apps/v1") or {}
    return int(found.get("status", {}).get("replicas", 0))


def outdated(world: World, name: str, changes: list[str] | None) -> None:
    """Write an Agent with the status of one whose Pods an older version of the controller made."""
    expansion = {"revision": 1 if changes is not None else 2, "available": 2}
    if changes is not None:
        expansion["changes"] = changes
    conditions = [
        {"type": type, "status": status, "reason": "Done", "message": "", "lastTransitionTime": "2026-11-20T10:00:00Z"}
        for type, status in {"Ready": "True", "Reconciling": "False", "Stalled": "False"}.items()
    ]
    status = {"observedGeneration": 1, "updateRevision": f"{name}-1", "conditions": conditions, "expansion": expansion}
    world.cluster.replace({**world.apply(agent(name)), "status": status}, manager="another", subresource="status")


def upgrade_requests(world: World) -> dict[str, str]:
    agents = {name: world.get("Agent", name, api=agent()["apiVersion"]) or {} for name in ("first", "second", "third")}
    annotations = {name: manifest["metadata"].get("annotations") or {} for name, manifest in agents.items()}
    return {name: values[UPGRADE] for name, values in annotations.items() if UPGRADE in values}


def test_an_upgrade_is_planned_requested_and_withdrawn(world: World, command: Command) -> None:
    change = "spec.terminationGracePeriodSeconds: nothing -> 77"
    outdated(world, "first", [change])
    outdated(world, "second", [change])
    outdated(world, "third", None)
    planned = command("upgrade", "--plan", "--max-unavailable", "1", "-o", "json")
    rows = json.loads(planned.stdout)
    assert [(row["agent"], row["wave"], row["expansion"], row["state"]) for row in rows] == [
        ("first", 1, "1 -> 2", ""),
        ("second", 2, "1 -> 2", ""),
    ]
    shown = command("upgrade", "--plan").stdout
    assert f"shop/first, shop/second:\n  {change}\n" in shown
    assert upgrade_requests(world) == {}, "a plan requests nothing"
    assert command("upgrade", "--by", "ada", "--max-unavailable", "1").exit_code == 0
    assert upgrade_requests(world) == {"first": "2/1", "second": "2/1"}
    assert "Agent shop/first: upgrade withdrawn" in command("upgrade", "first", "--cancel").stdout
    assert upgrade_requests(world) == {"second": "2/1"}
    assert "all Agents have the Pods of this version" in command("upgrade", "third").stdout


def test_a_limit_of_an_upgrade_that_is_none_is_an_error(world: World, command: Command) -> None:
    done = command("upgrade", "--max-unavailable", "many")
    assert (done.exit_code, "'many' is neither a number of Agents" in done.stderr) == (2, True)
