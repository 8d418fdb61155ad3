"""A Git server that rejects the credentials: the status becomes Unknown, and ``gitsync status`` exits with 1."""

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
