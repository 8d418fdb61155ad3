"""A storm of push events, and a long life: Git is asked a few times, and nothing grows."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gitsync.cluster.cache import InformerCache
from gitsync.controllers.application import ApplicationController
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.sandbox.faults import Fault, FaultKind
from gitsync.source.repositories import Repositories
from gitsync.wiring import Adapters, build_engine
from gitsync.workers.pool import RenderPool
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.git_http_server import GitServer
from tests.waiting import until

POSTS = 10_000
LOOKS = 100_000 if os.environ.get("GITSYNC_FAULTS") == "all" else 2_000


@pytest.fixture
def server(world: World) -> Iterator[GitServer]:
    with GitServer(world.folder / "git") as made:
        yield made


@pytest.fixture
def engine(world: World, tmp_path: Path) -> Iterator[ApplicationController]:
    """An engine that follows repositories over HTTP."""
    records = SqlRecords(Database(f"sqlite:///{tmp_path / 'history.db'}"))
    live, pool, renderer = InformerCache(world.client), ThreadPoolExecutor(4), RenderPool(1, 30.0, 1024)
    source = Repositories(tmp_path / "mirrors", schemes=("http", "file"))
    applications, _ = build_engine(Adapters(world.cluster, live, records, source, renderer, SystemClock(), pool))
    live.subscribe(applications.on_object_change, applications.enqueue_all)
    applications.start()
    yield applications
    applications.stop()
    live.stop()
    pool.shutdown()
    renderer.close()
    records.close()


def test_a_storm_of_push_events_fetches_what_is_new_once(
    world: World, server: GitServer, engine: ApplicationController
) -> None:
    first = world.repo.commit("first", {"one/a.yaml": config_map("a", x="1"), "two/b.yaml": config_map("b", x="1")})
    names = ("one", "two")
    for name in names:
        source = {"repoURL": server.url("origin.git")}
        world.application(name, source=source, destination={"namespace": "shop"}, sync={"interval": "1h"})
    for name in names:
        world.synced(first, name)
    second = world.repo.commit("second", {"one/a.yaml": config_map("a", x="2"), "two/b.yaml": config_map("b", x="2")})
    server.listings = server.packs = 0
    began = time.monotonic()
    keys = [f"{NAMESPACE}/{name}" for name in names]

    def post() -> None:
        for _ in range(POSTS // 4):
            engine.repository_changed(keys)

    posts = [threading.Thread(target=post) for _ in range(4)]
    for thread in posts:
        thread.start()
    for thread in posts:
        thread.join()
    for name in names:
        world.synced(second, name, timeout=5)
    third = world.repo.commit("third", {"one/a.yaml": config_map("a", x="3"), "two/b.yaml": config_map("b", x="3")})
    engine.repository_changed(keys)
    for name in names:
        world.synced(third, name, timeout=5)
    seconds = time.monotonic() - began
    assert server.packs == 2, "one fetch for each commit"
    # each application asks at most once a second; a fetch lists too
    assert server.listings <= len(names) * (seconds + 2) + server.packs


def used() -> tuple[int, int, int]:
    """Return resident memory in KiB, open descriptors and threads of this process."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    return memory, len(os.listdir("/proc/self/fd")), threading.active_count()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.timeout(1800)
def test_over_a_long_life_memory_descriptors_and_threads_stay_flat(world: World, engine: ApplicationController) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "shop/b.yaml": config_map("b", x="1")})
    world.application(sync={"interval": "1h"})
    world.synced(commit)
    key = f"{NAMESPACE}/shop"
    engine.stop_workers()  # from now on the looks are taken here, one after the other

    def is_live(x: str) -> bool:
        engine.reconcile(key)
        return (world.get("ConfigMap", "a") or {})["data"] == {"x": x}

    def live(looks: int) -> None:
        for number in range(looks):
            if number % (looks // 8) == 0:  # now and then a user commits, and a watch breaks
                world.sandbox.inject(Fault(FaultKind.DROP_WATCH, verb="watch", resource="configmaps", count=1))
                x = str(time.monotonic_ns())
                world.repo.commit(x, {"shop/a.yaml": config_map("a", x=x)})
                assert engine.request_sync(key, "ada")
                until(lambda x=x: is_live(x), 20)
            engine.reconcile(key)

    live(LOOKS // 4)  # caches fill
    before = used()
    live(LOOKS)
    memory, descriptors, threads = used()
    assert descriptors <= before[1] + 2
    assert threads <= before[2] + 1
    assert memory <= before[0] * 1.1 + 4096
