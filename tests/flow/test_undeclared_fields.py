"""Fields that others add to an object and Git does not declare: reported, removed or ignored, by the Application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitsync.gate.policy import Policy
from gitsync.objects.change import DRIFT, Difference
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.flow.factories import deployment
from tests.waiting import until

ROGUE = {"name": "MODEL_ID", "value": "rogue"}


def shop(world: World, setting: str | None = None) -> None:
    """Sync a Deployment; then two variables and a label are added to it by kubectl."""
    sync = {"undeclaredFields": setting} if setting else {}
    first = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
    world.application(sync=sync)
    world.start()
    world.synced(first)
    add(world, env=[ROGUE, {"name": "DEBUG", "value": "1"}], labels={"owner": "bob"})


def add(world: World, *, env: list[dict[str, str]], labels: dict[str, str], manager: str = "kubectl-set") -> None:
    """Add variables and labels as another field manager."""
    metadata = {"name": "web", "namespace": "shop", "labels": labels}
    template = {"spec": {"containers": [{"name": "web", "env": env}]}}
    spec: dict[str, Any] = {"spec": {"template": template}} if env else {}
    world.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, **spec}, manager)


def live(world: World) -> tuple[list[str], bool]:
    """Return the names of the variables, and whether the label is there."""
    found = world.get("Deployment", "web", api="apps/v1") or {}
    container = found["spec"]["template"]["spec"]["containers"][0]
    return [item["name"] for item in container.get("env", [])], "owner" in found["metadata"]["labels"]


def shown(world: World) -> list[tuple[str, Difference]]:
    """Return paths and kinds of what users added to the Deployment, as the view has it."""
    (item,) = world.view().resources
    return [(found.path, found.kind) for found in item.foreign if "deployment.kubernetes.io" not in found.path]


def test_by_default_those_that_change_what_runs_are_removed(world: World) -> None:
    shop(world)
    until(lambda: live(world) == ([], True), 10, lambda: live(world))
    until(lambda: [path for path, _ in shown(world)] == [".metadata.labels.owner"], 10, lambda: shown(world))
    until(lambda: world.status()["sync"] == "Synced")


def test_they_are_reported_where_the_application_says_so(world: World) -> None:
    shop(world, "Report")
    until(lambda: len(shown(world)) == 2, 10, lambda: shown(world))
    assert {kind for _, kind in shown(world)} == {Difference.FOREIGN}
    assert live(world) == (["MODEL_ID", "DEBUG"], True)
    until(lambda: world.status()["sync"] == "Synced", describe=world.status)


def test_remove_takes_them_out_and_nothing_else(world: World) -> None:
    shop(world, "Remove")
    until(lambda: live(world) == ([], False), 10, lambda: live(world))
    intents = world.controller.records.audit_records("gitsync/shop", action="update", outcome="Intended")
    assert intents  # another one follows where the object changed meanwhile
    for intent in intents:
        assert intent.reasoning.endswith("takes over the fields applied by kubectl-set")
    found = world.get("Deployment", "web", api="apps/v1") or {}
    assert found["spec"]["replicas"] == 2
    until(lambda: world.status()["sync"] == "Synced" and shown(world) == [], describe=lambda: shown(world))


def test_remove_without_self_heal_shows_them_as_drift_of_their_own_class(world: World) -> None:
    first = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
    world.application(sync={"undeclaredFields": "Remove", "selfHeal": False})
    world.start()
    world.synced(first)
    add(world, env=[ROGUE], labels={})
    until(lambda: world.status()["phase"] == "Drifted", 10, world.status)
    (item,) = world.view().resources
    (difference,) = [found for found in item.change.differences if found.kind in DRIFT]
    assert difference.path.endswith(".env")
    assert difference.kind is Difference.EXTRA
    world.controller.requests.request_sync("gitsync/shop", "ada")
    until(lambda: live(world)[0] == [], 10, lambda: live(world))


def test_what_is_ignored_is_counted_as_such_and_stays(world: World) -> None:
    shop(world, "Ignore")
    until(lambda: len(shown(world)) == 2, 10, lambda: shown(world))
    assert {kind for _, kind in shown(world)} == {Difference.IGNORED}
    world.application(sync={"undeclaredFields": "Report"})
    until(lambda: {kind for _, kind in shown(world)} == {Difference.FOREIGN}, 10, lambda: shown(world))


def test_managers_that_the_policy_expects_may_add_fields(tmp_path: Path) -> None:
    with Sandbox() as sandbox:
        world = World(tmp_path, sandbox, policy=Policy(expected_managers=("*-injector",)))
        world.namespace("shop")
        first = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
        world.application(sync={"undeclaredFields": "Remove"})
        world.start()
        world.synced(first)
        add(world, env=[{"name": "PROXY", "value": "on"}], labels={}, manager="sidecar-injector")
        until(lambda: [kind for _, kind in shown(world)] == [Difference.IGNORED], 10, lambda: shown(world))
        add(world, env=[], labels={"owner": "bob"})
        until(lambda: live(world) == (["PROXY"], False), 10, lambda: live(world))
        world.close()


@pytest.mark.parametrize(
    "ignore", [{"jsonPointers": ["/metadata/labels/owner"]}, {"managedFieldsManagers": ["kubectl-set"]}]
)
def test_an_ignore_rule_keeps_a_field_from_being_removed(world: World, ignore: dict[str, list[str]]) -> None:
    first = world.repo.commit("open", {"shop/web.yaml": deployment("web")})
    world.application(sync={"undeclaredFields": "Remove", "ignoreDifferences": [{"kind": "Deployment", **ignore}]})
    world.start()
    world.synced(first)
    add(world, env=[], labels={"owner": "bob"})
    add(world, env=[ROGUE], labels={}, manager="kubectl-edit")
    until(lambda: live(world)[0] == [], 10, lambda: live(world))
    assert live(world)[1]
