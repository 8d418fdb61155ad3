"""A full disk, and kill -9 at any moment of a write: no acknowledged record is lost, and nothing is applied unseen."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.child_process import child_process
from tests.flow.environment import World
from tests.flow.factories import config_map
from tests.small_disk import fill, small_disk
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
FULL = "cannot be written: No space left on device; free space"
KILLS = 1000 if os.environ.get("GITSYNC_FAULTS") == "all" else 60

WRITER = '''
"""Write audit records until the reader kills this process; print the number of each acknowledged one."""
import itertools, os, signal, sys
from datetime import UTC, datetime
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords

def record(number):
    return AuditRecord("a/b", "update", f"/ConfigMap/a/{number}", Outcome.SUCCEEDED, datetime.now(UTC), "s")

for life in itertools.count():
    if not sys.stdin.readline():
        break
    child = os.fork()
    if child == 0:
        records = SqlRecords(RecordDatabase(sys.argv[1]))
        for number in itertools.count():
            records.audit([record(f"{life}-{number}-{part}") for part in range(3)])
            os.write(1, f"{life}-{number}\\n".encode())
    os.write(1, f"pid {child}\\n".encode())
    os.waitpid(child, 0)
'''


def test_a_writer_that_is_killed_at_any_moment_loses_no_acknowledged_record(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    SqlRecords(RecordDatabase(f"sqlite:///{file}")).close()
    command = [sys.executable, "-c", WRITER, f"sqlite:///{file}"]
    with child_process(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        acknowledged: set[str] = set()
        for life in range(KILLS):
            writer.stdin.write(b"again\n")
            writer.stdin.flush()
            child, ours = 0, 0
            while not child or ours < 1 + life % 3:
                line = writer.stdout.readline().decode().strip()
                if line.startswith("pid"):
                    child = int(line.split()[1])
                else:
                    acknowledged.add(line)
                    ours += line.startswith(f"{life}-")
            time.sleep(life % 17 / 4000)  # at another moment of the next write each time
            os.kill(child, 9)
        writer.communicate()
        assert writer.returncode == 0
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    records = SqlRecords(RecordDatabase(f"sqlite:///{file}"))
    try:
        assert records.verify() == ()
        kept = {record.resource.rpartition("/")[2] for record in records.export()}
    finally:
        records.close()
    whole = {name.rpartition("-")[0] for name in kept}
    assert kept == {f"{name}-{part}" for name in whole for part in range(3)}, "a write is kept whole or not at all"
    assert acknowledged <= whole
    assert len({name.partition("-")[0] for name in acknowledged}) == KILLS


def test_nothing_is_applied_while_the_disk_is_full_and_it_goes_on_by_itself(world: World) -> None:
    script = [sys.executable, "-m", "tests.flow.controller_process", str(world.kubeconfig), str(world.folder / "data")]
    running = subprocess.Popen(script, cwd=ROOT, stderr=subprocess.PIPE)
    try:
        first = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1")})
        world.application()
        world.synced(first, timeout=20)
        # no file of the process may grow any more, as on a full disk
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
        second = world.repo.commit(
            "second", {"shop/a.yaml": config_map("a", x="2"), "shop/b.yaml": config_map("b", x="1")}
        )
        until(lambda: world.status()["revision"]["fetched"] == second, 20, world.status)
        until(lambda: "database cannot be used" in world.condition("Ready").get("message", ""), 10, world.status)
        assert "is its disk full" in world.condition("Ready")["message"]
        found = world.get("ConfigMap", "a")
        assert found is not None
        assert found["data"] == {"x": "1"}
        assert world.get("ConfigMap", "b") is None
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        world.synced(second, timeout=40)
    finally:
        running.kill()
        running.communicate()
    records = SqlRecords(RecordDatabase(f"sqlite:///{world.folder / 'data' / 'history.db'}"))
    try:
        assert records.verify() == ()
        assert records.unresolved() == ()
    finally:
        records.close()


def test_a_mirror_on_a_full_disk_is_reported_and_goes_on_by_itself(world: World) -> None:
    commit = world.repo.commit("first", {"shop/a.yaml": config_map("a", x="1"), "other/b.yaml": config_map("b", x="1")})
    with small_disk(world.folder / "data" / "mirrors") as disk:
        world.start()
        filler = fill(disk)
        for name in ("shop", "other"):
            world.application(name, sync={"interval": "5s"}, destination={"namespace": "shop"})
        for name in ("shop", "other"):
            until(lambda name=name: FULL in world.condition("SourceReady", name).get("message", ""), 30)  # type: ignore[misc]
            assert world.condition("SourceReady", name)["status"] == "False"
        filler.unlink()
        for name in ("shop", "other"):
            until(lambda name=name: world.status(name).get("sync") == "Synced", 60, world.status)  # type: ignore[misc]
            assert world.status(name)["revision"]["applied"] == commit
        world.stop()
