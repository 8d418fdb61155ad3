"""A real API server over HTTP, and the edge on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.sandbox.server import Sandbox


@pytest.fixture
def server() -> Iterator[Sandbox]:
    with Sandbox(workloads=False) as sandbox:
        yield sandbox


@pytest.fixture
def client(server: Sandbox, tmp_path: Path) -> Iterator[Client]:
    made = Client(Connection(str(server.kubeconfig(tmp_path / "kubeconfig"))))
    yield made
    made.close()


@pytest.fixture
def cluster(client: Client) -> KubernetesCluster:
    return KubernetesCluster(client)
