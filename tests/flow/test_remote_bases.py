"""A kustomization that names a folder of another repository, synced by a real controller from an HTTPS server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git
from tests.waiting import until

POLICY = """\
apiVersion: gitsync.dev/v1alpha1
kind: Policy
metadata: {name: shops}
spec:
  allow: {remotes: [%s]}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    certificate = make_certificate()
    (tmp_path / "ca.crt").write_text(certificate.authority)
    with GitServer(tmp_path / "other", certificate) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "shops.yaml").write_text(POLICY % "")
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox, policies=folder)
        made.namespace("shop")
        made.start(git_ca=tmp_path / "ca.crt")
        yield made
        made.close()


@pytest.fixture
def base(tmp_path: Path) -> GitRepo:
    made = GitRepo(tmp_path / "other")
    made.commit({"web/kustomization.yaml": "resources: [a.yaml]", "web/a.yaml": config_map("a", mode="base")})
    tag(made)
    return made


def tag(base: GitRepo) -> str:
    """Have the tag v1 name the newest commit, and return that."""
    git(base.work, "push", "-q", "--force", "origin", "HEAD:refs/tags/v1")
    return git(base.work, "rev-parse", "HEAD")


def allow(world: World, pattern: str) -> None:
    (world.folder / "policies" / "shops.yaml").write_text(POLICY % pattern)


def refer(world: World, server: GitServer) -> str:
    """Have the Application name the folder of the other repository; return the reference."""
    reference = f"{server.url('origin.git')}//web?ref=v1"
    world.repo.commit("Base", {"shop/kustomization.yaml": f"resources: ['{reference}']"})
    return reference


def is_refused(world: World) -> bool:
    return "not allowed by policy shops" in world.condition("Ready").get("message", "")


def mode(world: World) -> Any:
    return (world.get("ConfigMap", "a") or {}).get("data")


def test_a_remote_base_is_applied_while_a_policy_allows_it(world: World, server: GitServer, base: GitRepo) -> None:
    reference = refer(world, server)
    world.application()
    until(lambda: is_refused(world), 30, world.status)
    assert world.get("ConfigMap", "a") is None
    assert not server.requests
    allow(world, server.url("*"))
    until(lambda: mode(world) == {"mode": "base"}, 30, world.status)
    commit = git(base.work, "rev-parse", "HEAD")
    until(lambda: world.status()["revision"].get("remotes") == {reference: commit}, 30, world.status)
    allow(world, "")
    until(lambda: is_refused(world), 30, world.status)
    assert mode(world) == {"mode": "base"}, "what was applied stays"
    world.repo.commit("Without", {"shop/kustomization.yaml": "resources: [b.yaml]", "shop/b.yaml": config_map("b")})
    until(lambda: world.get("ConfigMap", "b") is not None, 30, world.status)


def test_a_restart_asks_the_policy_again(world: World, server: GitServer, base: GitRepo) -> None:
    allow(world, server.url("*"))
    refer(world, server)
    world.application()
    until(lambda: world.status().get("sync") == "Synced", 30, world.status)
    world.stop()
    allow(world, "")
    world.start(git_ca=world.folder / "ca.crt")
    until(lambda: is_refused(world), 30, world.status)


def test_a_restart_applies_a_tag_that_moved(world: World, server: GitServer, base: GitRepo) -> None:
    allow(world, server.url("*"))
    reference = refer(world, server)
    world.application()
    until(lambda: world.status().get("sync") == "Synced", 30, world.status)
    world.stop()
    base.commit({"web/a.yaml": config_map("a", mode="moved")})
    moved = tag(base)
    world.start(git_ca=world.folder / "ca.crt")
    until(lambda: mode(world) == {"mode": "moved"}, 30, world.status)
    until(lambda: world.status()["revision"].get("remotes") == {reference: moved}, 30, world.status)


def test_a_server_that_is_down_is_named_and_what_is_applied_stays(
    world: World, server: GitServer, base: GitRepo
) -> None:
    allow(world, server.url("*"))
    server.failures = {"info/refs": 503}
    refer(world, server)
    world.application()
    until(lambda: server.url("origin.git") in world.condition("Ready").get("message", ""), 30, world.status)
    server.failures = {}
    until(lambda: mode(world) == {"mode": "base"}, 30, world.status)
    server.failures = {"info/refs": 503}
    world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
    until(lambda: mode(world) == {"mode": "base"}, 30, world.status)
