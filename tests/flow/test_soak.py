"""A long life with faults: what a controller uses does not grow with its reconciles."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from gitsync.controllers.application import ApplicationController
from gitsync.errors import GitsyncError
from gitsync.record.audit_chain import Retention
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests.flow.environment import NAMESPACE, World
from tests.flow.factories import config_map
from tests.flow.sandbox_process import SandboxProcess
from tests.git_http_server import GitServer
from tests.waiting import until

RECONCILES = 100_000 if os.environ.get("GITSYNC_FAULTS") == "all" else 2_000
PERIOD = 100
"""Reconciles between two commits of a soak, each with a fault."""
KEY = f"{NAMESPACE}/shop"
FAULTS = (
    InjectedFault(FaultKind.DROP_WATCH, verb="watch", resource="configmaps", count=1),
    InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", resource="configmaps", count=1),
    InjectedFault(FaultKind.ERROR, verb="patch", resource="configmaps", count=2, code=503),
    InjectedFault(FaultKind.ERROR_AFTER, verb="patch", resource="configmaps", count=1),
    InjectedFault(FaultKind.LOST_REPLY, verb="patch", resource="configmaps", count=1),
    InjectedFault(FaultKind.THROTTLE, verb="patch", resource="configmaps", count=1, seconds=0.05),
    InjectedFault(FaultKind.CONFLICT, verb="patch", resource="applications.gitsync.dev", count=1),
)


class Usage(NamedTuple):
    """Resident memory and database in KiB; descriptors, threads and temporary files by number."""

    memory: int
    descriptors: int
    threads: int
    database: int
    files: int


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxProcess]:
    with SandboxProcess(tmp_path) as made:
        yield made


@pytest.fixture
def world(tmp_path: Path, sandbox: SandboxProcess) -> Iterator[World]:
    """A world whose cluster is another process: what this process uses is what a controller uses."""
    made = World(tmp_path, cast("Sandbox", sandbox))
    made.namespace("shop")
    yield made
    made.close()


class Soak:
    """A long life of an engine: commits and faults between reconciles, and what the process uses."""

    def __init__(
        self,
        world: World,
        sandbox: SandboxProcess,
        server: GitServer,
        engine: ApplicationController,
        records: SqlRecords,
    ) -> None:
        self._world, self._sandbox, self._server, self._engine = world, sandbox, server, engine
        self._retention = Retention(records, SystemClock(), keep=100)
        self._folder = world.folder
        self._faults = cycle((*FAULTS, self._fail_listing, self._fail_fetch, self._kill_processes))
        self.commits = 0

    def live(self, reconciles: int) -> None:
        """Reconcile, with a commit and a fault each hundredth time."""
        for number in range(reconciles):
            if number % PERIOD == 0:
                self._commit_with(next(self._faults))
            self._engine.reconcile(KEY)

    def used(self) -> Usage:
        """Return what the process and its folders use now."""
        gc.collect()
        status = Path("/proc/self/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        database = (self._folder / "history.db").stat().st_size // 1024  # the log beside it has a fixed limit
        files = sum(1 for path in (self._folder / "tmp").rglob("*") if path.is_file())
        return Usage(memory, len(os.listdir("/proc/self/fd")), threading.active_count(), database, files)

    def _commit_with(self, fault: InjectedFault | Callable[[], None]) -> None:
        self.commits += 1
        value = str(self.commits)
        self._world.repo.commit(value, {"shop/a.yaml": config_map("a", x=value)})
        if isinstance(fault, InjectedFault):
            self._sandbox.inject(fault)
        else:
            fault()
        until(lambda: self._is_live(value), 60)
        self._sandbox.clear_faults()
        self._retention.trim()

    def _is_live(self, value: str) -> bool:
        """Request a sync, as a user does after a failure, and return whether the commit is live."""
        if (self._world.get("ConfigMap", "a") or {})["data"] == {"x": value}:
            return True
        self._engine.request_sync(KEY, "ada")
        with suppress(GitsyncError):  # the queue would come again
            self._engine.reconcile(KEY)
        self._server.failures.clear()
        return False

    def _fail_listing(self) -> None:
        self._server.failures["/info/refs"] = 503

    def _fail_fetch(self) -> None:
        self._server.failures[" fetch"] = 503

    def _kill_processes(self) -> None:
        """Kill what renders and what reads objects of Git."""
        for task in Path("/proc/self/task").iterdir():
            for pid in map(int, (task / "children").read_text().split()):
                if pid != self._sandbox.id:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.timeout(3600)
def test_over_a_long_life_with_faults_nothing_grows(
    world: World,
    sandbox: SandboxProcess,
    server: GitServer,
    engine: ApplicationController,
    records: SqlRecords,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="0"), "shop/b.yaml": config_map("b", x="0")})
    world.application(source={"repoURL": server.url("origin.git")}, sync={"interval": "1h"})
    world.synced(commit)
    engine.stop_workers()  # from now on this thread reconciles
    soak = Soak(world, sandbox, server, engine, records)
    soak.live(RECONCILES // 4)  # caches fill
    before = soak.used()
    soak.live(RECONCILES)
    after = soak.used()
    print(f"{RECONCILES} reconciles, {soak.commits} commits with faults: {before}, then {after}")
    assert after.memory <= before.memory * 1.1 + 4096
    assert after.database <= before.database * 1.1 + 512

    def is_as_before() -> bool:
        now = soak.used()
        is_less = now.descriptors <= before.descriptors + 2 and now.threads <= before.threads + 1
        return is_less and now.files <= before.files + 2

    until(is_as_before, describe=soak.used)  # a write or a fetch that is under way ends
