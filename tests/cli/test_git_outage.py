"""A Git server behind TLS that fails: what the status says, what commands exit with, and what continues to work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.sandbox.server import Sandbox
from tests.cli.conftest import Gitsync
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.git_http_server import GitServer
from tests.waiting import until


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        (tmp_path / "data").mkdir()
        sandbox.kubeconfig(tmp_path / "data" / "kubeconfig")
        yield made
        made.close()


def test_expired_credentials_do_not_look_healthy(world: World, gitsync: Gitsync) -> None:
    certificate = make_certificate()
    with GitServer(world.folder / "git", certificate) as server:
        server.accepted = {"ada:right"}
        login = {"username": "ada", "password": "right", "ca.crt": certificate.authority}
        metadata = {"name": "login", "namespace": NAMESPACE}
        world.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": login})
        commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
        url, credentials = server.url("origin.git"), {"secretRef": {"name": "login"}}
        world.application(source={"repoURL": url, "credentials": credentials})
        world.start()
        world.synced(commit, timeout=20)
        data = ("--data", world.folder / "data")
        until(lambda: gitsync("status", *data).code == 0, 10, world.status)
        server.accepted = set()
        until(lambda: world.condition("SourceReady").get("status") == "False", 20, world.status)
        assert "in Secret gitsync/login" in world.condition("SourceReady")["message"]
        until(lambda: world.status()["sync"] == "Unknown", 20, world.status)
        assert world.condition("Ready")["status"] == "Unknown"
        done = gitsync("status", *data)
        assert done.code == 1
        assert "rejected the credentials" in done.out
        server.accepted = {"ada:right"}
        until(lambda: gitsync("status", *data).code == 0, 20, world.status)


def test_drift_is_corrected_while_the_newest_commit_cannot_be_fetched(
    world: World, gitsync: Gitsync, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate()
    authority = world.folder / "ca.crt"
    authority.write_text(certificate.authority)
    with GitServer(world.folder / "git", certificate) as server:
        commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
        world.application(source={"repoURL": server.url("origin.git")})
        world.start(git_ca=authority)
        world.synced(commit, timeout=20)
        server.failures[" fetch"] = 503
        world.repo.commit("second", {"shop/a.yaml": config_map("a", x="2")})
        until(lambda: "has failed (503)" in world.condition("SourceReady").get("message", ""), 20, world.status)
        world.client.send("DELETE", "/api/v1/namespaces/shop/configmaps/a", {})
        until(lambda: world.get("ConfigMap", "a") is not None, 10, world.status)
        assert (world.get("ConfigMap", "a") or {})["data"] == {"x": "1"}
        server.failures.clear()
        until(lambda: (world.get("ConfigMap", "a") or {}).get("data") == {"x": "2"}, 20, world.status)
        data = ("--data", world.folder / "data")
        assert "is not trusted" in gitsync("plan", "shop", *data).out
        monkeypatch.setenv("GITSYNC_GIT_CA", str(authority))
        assert "is not trusted" not in gitsync("plan", "shop", *data).out
