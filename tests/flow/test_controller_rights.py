"""A user who may create an Application cannot use the controller's own rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.flow.factories import config_map, deployment
from tests.waiting import until

POLICY = """\
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: all}
spec:
  allow: {controllerRights: %s}
"""


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, sandbox: Sandbox) -> Iterator[World]:
    made = World(tmp_path, sandbox, controller_rights=False)
    made.namespace("shop")
    yield made
    made.close()


def rejected(world: World) -> bool:
    return "serviceAccountName: none is named" in str(world.condition("Ready").get("message"))


def test_an_application_without_account_writes_nothing(world: World) -> None:
    world.namespace("bank")
    world.repo.commit(
        "Job",
        {
            "shop/d.yaml": deployment("web"),
            "shop/c.yaml": config_map("a").replace("name: a", "name: a\n  namespace: bank"),
        },
    )
    world.application()
    world.start()

    until(lambda: rejected(world), describe=world.status)
    assert world.get("ConfigMap", "a", "bank") is None
    assert world.status()["phase"] == "Failed"


def test_what_was_applied_before_an_upgrade_stays(world: World) -> None:
    world.start(controller_rights=True)
    world.application()
    world.synced(world.repo.commit("Web", {"shop/c.yaml": config_map("a")}))
    world.stop()
    world.start()

    until(lambda: rejected(world), describe=world.status)
    assert world.get("ConfigMap", "a") is not None


def test_a_policy_allows_them_and_a_change_of_it_takes_them_away(tmp_path: Path, sandbox: Sandbox) -> None:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "all.yaml").write_text(POLICY % "true")
    world = World(tmp_path, sandbox, policies=folder, controller_rights=False)
    world.namespace("shop")
    world.start()
    world.application()
    world.synced(world.repo.commit("Web", {"shop/c.yaml": config_map("a")}))

    (folder / "all.yaml").write_text(POLICY % "false")
    until(lambda: rejected(world), describe=world.status)
    world.close()
