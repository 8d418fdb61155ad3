"""Git or the cluster fails for a while: nothing is guessed or lost, and syncs resume automatically."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.errors import InvalidInput
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import WIDGET, WIDGETS, config_map
from tests.waiting import never, until


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[World]:
    """A world whose cluster survives a restart at the same address."""
    sandbox = Sandbox(tmp_path / "cluster")
    sandbox.start()
    world = World(tmp_path, sandbox)
    world.namespace("shop")
    yield world
    world.close()
    world.sandbox.stop()


def restart(world: World) -> None:
    port = int(world.sandbox.url.rpartition(":")[2])
    world.sandbox = Sandbox(world.folder / "cluster", port=port)
    world.sandbox.start()


def test_an_api_server_that_goes_away_makes_the_state_unknown_until_it_is_back(lasting: World) -> None:
    world = lasting
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    world.sandbox.stop()
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    until(lambda: world.view().status["sync"] == "Unknown", 10, lambda: world.view().status)
    until(lambda: "was not answered" in str(world.view().status["conditions"]), describe=lambda: world.view().status)
    restart(world)
    world.synced(second, timeout=30)


def test_a_git_server_that_goes_away_stops_neither_healing_nor_the_next_commit(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    hidden = world.repo.bare.with_name("hidden.git")
    world.repo.bare.rename(hidden)
    until(lambda: world.condition("SourceReady").get("status") == "False", 10, world.status)
    assert world.status()["sync"] == "Synced"
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: world.get("ConfigMap", "a") is not None, 3)
    hidden.rename(world.repo.bare)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    world.synced(second, timeout=20)
    assert world.condition("SourceReady")["status"] == "True"


def test_nothing_is_applied_while_the_audit_cannot_be_written(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    database = sqlite3.connect(world.folder / "data" / "history.db", timeout=10)
    with contextlib.closing(database), database:
        database.execute("ALTER TABLE audit RENAME TO hidden")
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    until(lambda: "database cannot be used" in world.condition("Ready")["message"], describe=world.status)
    found = world.get("ConfigMap", "a")
    assert found is not None
    assert found["data"] == {"x": "1"}
    database = sqlite3.connect(world.folder / "data" / "history.db", timeout=10)
    with contextlib.closing(database), database:
        database.execute("ALTER TABLE hidden RENAME TO audit")
    world.synced(second, timeout=20)


def test_an_application_with_an_invalid_spec_says_so_and_others_run(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    window = {"kind": "Allow", "schedule": "often", "duration": "1h"}  # no schema can check a cron expression
    world.application("wrong", source={"path": "shop"}, sync={"windows": [window]})
    world.application("hostile", source={"path": "shop", "repoURL": "ext::sh"})
    world.application()
    world.start()
    world.synced(first)
    until(lambda: world.status("wrong").get("phase") == "Failed", 5, lambda: world.status("wrong"))
    assert "spec.sync.windows.schedule" in world.condition("Ready", "wrong")["message"]
    until(lambda: world.condition("SourceReady", "hostile").get("status") == "False", 5)
    assert "scheme" in world.condition("SourceReady", "hostile")["message"]


def test_a_suspended_application_does_nothing_and_goes_on_when_resumed(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    world.application(suspend=True)
    until(lambda: world.status()["phase"] == "Suspended", 5, world.status)
    second = world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    never(lambda: world.get("ConfigMap", "a") is not None, 1.5)
    world.application(suspend=False)
    world.synced(second)


def test_with_automation_off_only_a_request_syncs(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application(sync={"automated": False})
    world.start()
    until(lambda: world.status().get("phase") == "Pending", 5, world.status)
    assert world.get("ConfigMap", "a") is None
    world.apply(
        {
            "apiVersion": "gitsync.dev/v1alpha1",
            "kind": "Application",
            "metadata": {
                "name": "shop",
                "namespace": NAMESPACE,
                "annotations": {"gitsync.dev/requested-sync": "by-ada-1"},
            },
        },
        manager="ada",
    )
    world.synced(commit)
    until(lambda: world.status().get("requestedSync") == "by-ada-1", describe=world.status)
    assert world.controller.records.history(f"{NAMESPACE}/shop")[0].trigger == "manual"


def test_a_dropped_definition_is_followed_no_more_and_others_go_on(world: World) -> None:
    first = world.repo.commit("first", {"shop/crd.yaml": WIDGETS, "shop/widget.yaml": WIDGET})
    world.grant("CustomResourceDefinition")
    world.application(destination={"namespace": "shop", "allowClusterScoped": True}, risk={"approval": "Never"})
    world.start()
    world.synced(first)
    world.cluster.definitions_changed()
    dropped = world.get("Widget", "w", api="example.com/v1")
    assert dropped is not None
    world.client.send("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", {})

    def is_back() -> bool:
        world.cluster.definitions_changed()
        with contextlib.suppress(InvalidInput):  # the definition is not back yet
            return world.get("Widget", "w", api="example.com/v1") not in (None, dropped)
        return False

    until(is_back, describe=world.status)  # self-heal brings the definition and its object back
    world.synced(first)


def test_an_unsigned_commit_is_refused_and_the_last_good_one_kept_up(world: World) -> None:
    first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(first)
    world.apply(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "keys", "namespace": NAMESPACE},
            "stringData": {"ada": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEqN0O0wKMmEtcQ2B2XOp4pIu5wz0bTBLUvh2ZzVDGyp"},
        }
    )
    world.application(source={"verify": {"mode": "SignedCommits", "secretRef": {"name": "keys"}}})
    world.repo.commit("unsigned", {"shop/a.yaml": config_map("a", x="2")})
    until(lambda: "not signed" in world.condition("SourceReady").get("message", ""), 10, world.status)
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    found = until(lambda: world.get("ConfigMap", "a"), 5)
    assert found["data"] == {"x": "1"}


def test_a_submodule_inside_the_path_is_reported_in_the_status(world: World) -> None:
    world.repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},shop/lib")
    world.repo.git("commit", "-q", "-m", "Add a submodule")
    (world.repo.clone / "shop/lib").mkdir(parents=True)
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
    world.application()
    world.start()
    world.synced(commit)
    assert "shop/lib: the files of this Git submodule are not read" in world.condition("Rendered")["message"]


def test_a_git_lfs_pointer_is_not_applied(world: World) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    kustomization = "configMapGenerator: [{name: a, files: [data.bin]}]\n"
    world.repo.commit("first", {"shop/kustomization.yaml": kustomization, "shop/data.bin": pointer})
    world.application()
    world.start()
    until(lambda: "the file is a Git LFS pointer" in world.condition("Rendered").get("message", ""), 10, world.status)
    assert "shop/data.bin" in world.condition("Rendered")["message"]
    assert world.get("ConfigMap", "a") is None
