"""Policy files of the operator, read by a real controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.sandbox.server import Sandbox
from gitsync.services.policies import read_policies
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.waiting import until

POLICY = """\
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: shops}
spec:
  applications: ["gitsync/shop*"]
  allow: {namespaces: [shop], kinds: [ConfigMap]}
---
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: data}
spec:
  match: {kinds: [ConfigMap]}
  rules:
  - {name: mode, expression: "has(object.data.mode)", message: a mode is needed}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "shops.yaml").write_text(POLICY)
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox, policies=folder)
        made.namespace("shop")
        made.start()
        yield made
        made.close()


def test_what_a_policy_allows_is_applied(world: World) -> None:
    commit = world.repo.commit("Open", {"shop/a.yaml": config_map("a", mode="open")})
    world.application()
    world.synced(commit)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (
            {"shop/s.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"},
            "kind Secret is not allowed by policy shops",
        ),
        ({"shop/a.yaml": config_map("a", other="x")}, "a mode is needed"),
    ],
    ids=["a kind that is not allowed", "a rule that is not met"],
)
def test_what_it_does_not_allow_is_refused_as_a_whole(world: World, files: dict[str, str | None], says: str) -> None:
    world.repo.commit("Open", {"shop/good.yaml": config_map("good", mode="open"), **files})
    world.application()
    until(lambda: says in world.condition("Ready").get("message", ""), describe=lambda: world.status())
    assert world.get("ConfigMap", "good") is None


@pytest.mark.parametrize(
    "manifest",
    [
        "kind: Secret\nmetadata: {name: s, annotations: {gitsync.dev/hook: PostSync}}\n",
        'kind: Secret\nmetadata: {name: s, annotations: {gitsync.dev/reconcile: "false"}}\n',
    ],
    ids=["a hook", "an object that is not reconciled"],
)
def test_what_a_sync_would_not_write_is_refused_too(world: World, manifest: str) -> None:
    first = world.repo.commit("Open", {"shop/good.yaml": config_map("good", mode="open")})
    world.application()
    world.synced(first)
    world.repo.commit("Add", {"shop/s.yaml": f"apiVersion: v1\n{manifest}"})
    says = "kind Secret is not allowed by policy shops"
    until(lambda: says in world.condition("Ready").get("message", ""), describe=lambda: world.status())
    assert world.get("Secret", "s") is None


def test_what_policy_forbids_is_said_before_anybody_syncs(world: World) -> None:
    world.repo.commit("Open", {"shop/a.yaml": config_map("a", other="x")})
    world.application(sync={"automated": False})
    until(lambda: "a mode is needed" in world.condition("Ready").get("message", ""), describe=lambda: world.status())


def test_an_application_that_no_policy_names_may_do_nothing(world: World) -> None:
    world.namespace("bar")
    world.repo.commit("Open", {"bar/a.yaml": config_map("a", mode="open")})
    world.application("bar")
    until(
        lambda: "no policy names this application" in world.condition("Ready", "bar").get("message", ""),
        describe=lambda: world.status("bar"),
    )


def test_a_folder_of_policies_that_is_not_there_allows_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"folder .* does not exist"):
        read_policies(tmp_path / "gone")
