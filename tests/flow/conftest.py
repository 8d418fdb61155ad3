"""Worlds for tests of the whole way."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.controllers.application import ApplicationController
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.sandbox.server import Sandbox
from gitsync.source.remote import Transport
from gitsync.source.repositories import Repositories
from gitsync.wiring import Adapters, build_engine
from gitsync.workers.pool import RenderPool
from tests.flow.environment import World
from tests.flow.tcp_proxy import Proxy
from tests.git_http_server import GitServer


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A repository, a sandbox and a controller that is not started; the namespace ``shop`` exists."""
    with Sandbox() as sandbox:
        made = World(tmp_path, sandbox)
        made.namespace("shop")
        yield made
        made.close()


@pytest.fixture
def server(world: World) -> Iterator[GitServer]:
    with GitServer(world.folder / "git") as made:
        yield made


@pytest.fixture
def records(tmp_path: Path) -> Iterator[SqlRecords]:
    made = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path / 'history.db'}"))
    yield made
    made.close()


@pytest.fixture
def engine(world: World, records: SqlRecords, tmp_path: Path) -> Iterator[ApplicationController]:
    """An engine that follows repositories over HTTP."""
    live, pool, renderer = InformerCache(world.client), ThreadPoolExecutor(4), RenderPool(1, 30.0, 1024)
    source = Repositories(tmp_path / "mirrors", Transport(("file", "http")))
    applications, _ = build_engine(Adapters(world.cluster, live, records, source, renderer, SystemClock(), pool))
    live.subscribe(applications.on_object_change, applications.enqueue_all)
    applications.start()
    yield applications
    applications.stop()
    live.stop()
    pool.shutdown()
    renderer.close()


@pytest.fixture
def line(world: World, tmp_path: Path) -> Iterator[Proxy]:
    """The line between the controller and the API server; the test's own hands do not use it."""
    port = int(world.sandbox.url.rpartition(":")[2])
    with Proxy(port) as proxy:
        config = world.kubeconfig.read_text().replace(f":{port}", f":{proxy.port}")
        world.kubeconfig = tmp_path / "through-the-proxy"
        world.kubeconfig.write_text(config)
        yield proxy
