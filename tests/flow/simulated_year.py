"""
Let two replicas live through a year in hours: ``python -m tests.flow.simulated_year --syncs 30000``.

Commits change all Applications, and between them come the events of ``EVENTS``, spread evenly. It ends with the first
thing that is lost or stuck, and prints what the controllers use: memory, descriptors, threads, disk and database have
to stay flat. ``--other CHECKOUT`` is another version, with which a replica runs in turn.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from tests import postgres, replicas
from tests.flow.environment import World, is_synced
from tests.flow.factories import config_map, deployment
from tests.flow.tcp_proxy import Proxy
from tests.small_disk import fill, small_disk
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
LEASE = 5.0
PATIENCE = 600.0
YEAR = 30_000
"""Syncs of a year."""


@dataclass(slots=True)
class Life:
    """Two replicas, and all that they depend on."""

    world: World
    line: Proxy
    server: postgres.Postgres
    database: str
    other: Path
    names: tuple[str, ...]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    commits: int = 0

    def start(self, name: str, checkout: Path = ROOT) -> None:
        """Start a replica, of another version where its checkout is named."""
        settings = {"GITSYNC_REPLICAS": "true", "GITSYNC_LEASE_SECONDS": str(LEASE), "GITSYNC_DATABASE": self.database}
        script = [sys.executable, str(ROOT / "tests/flow/controller_process.py"), str(self.world.kubeconfig)]
        environment = {**os.environ, **settings, "PYTHONPATH": str(checkout)}
        log = (self.world.folder / f"{name}.log").open("ab")
        self.processes[name] = subprocess.Popen(
            [*script, str(self.world.folder / name)], cwd=checkout, env=environment, stdout=log, stderr=log
        )

    def end(self, name: str, how: signal.Signals = signal.SIGKILL) -> None:
        """End a replica and wait for its process."""
        self.processes[name].send_signal(how)
        self.processes[name].wait()

    def commit(self) -> str:
        """Commit a change of every Application."""
        self.commits += 1
        files: dict[str, str | None] = {
            f"{name}/a.yaml": config_map(f"{name}-a", x=str(self.commits)) for name in self.names
        }
        return self.world.repo.commit(f"commit {self.commits}", files)

    def all_synced(self, commit: str) -> None:
        """Wait until all Applications are synced to a commit."""

        def are_synced() -> bool:
            statuses = self.world.statuses()
            return all(is_synced(statuses[name], commit) for name in self.names)

        until(are_synced, PATIENCE, lambda: str(self.world.statuses())[:3000])


def force_push(life: Life) -> None:
    """Replace the newest commit by another one, which a user then requests."""
    life.world.repo.git("commit", "-q", "--amend", "-m", f"forced {life.commits}")
    life.world.repo.push()
    # a forced push is rejected until a commit follows that contains what was applied, or a person decides
    life.world.repo.git("reset", "-q", "--hard", "HEAD@{1}")
    life.world.repo.push()


def other_version(life: Life) -> None:
    """Replace a replica by one of another version, and that one by this version again."""
    for checkout in (life.other, ROOT):
        life.end("b", signal.SIGTERM)
        life.start("b", checkout)
        life.all_synced(life.commit())


def api_server(life: Life) -> None:
    """Stop the API server, and compact its history meanwhile."""
    life.line.down(True)
    time.sleep(2)
    life.world.sandbox.inject(InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", count=20))
    life.line.down(False)


def database(life: Life) -> None:
    """Restart the database as after a crash."""
    life.server.stop()
    life.commit()
    time.sleep(2)
    life.server.start()


def disk(life: Life) -> None:
    """Fill the volume of a replica during a commit."""
    filler = fill(life.world.folder / "a")
    life.commit()
    time.sleep(2)
    filler.unlink()


def killed(life: Life) -> None:
    """Kill the replicas in turn."""
    name = "ab"[life.commits % 2]
    life.end(name)
    life.commit()
    life.start(name)


def rotated(life: Life) -> None:
    """Write the kubeconfig again, as a rotation of credentials does."""
    file = life.world.kubeconfig
    text = file.read_text(encoding="utf-8")
    new = file.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.rename(file)


EVENTS: dict[Callable[[Life], None], int] = {
    force_push: 50,
    other_version: 10,  # each an upgrade and a downgrade
    api_server: 10,
    database: 10,
    disk: 5,
    rotated: 12,
    killed: 52,
}
"""What happens how often in a year."""


def usage(life: Life) -> dict[str, float]:
    """Return what the replicas use: MiB, numbers, and the size of the database in MiB."""
    result: dict[str, float] = {}
    for name, process in life.processes.items():
        proc = Path(f"/proc/{process.pid}")
        fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        result[f"{name} memory"] = int(fields["VmRSS"].split()[0]) // 1024
        result[f"{name} threads"] = int(fields["Threads"])
        result[f"{name} descriptors"] = len(list((proc / "fd").iterdir()))
        files = (life.world.folder / name).rglob("*")
        result[f"{name} disk"] = round(sum(file.lstat().st_size for file in files) / 2**20, 1)
    with psycopg.connect(life.database) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        result["database"] = round(row[0] / 2**20, 1)
    return result


def live(life: Life, syncs: int, seconds: float) -> Counter[str]:
    """Let this many syncs happen with their share of the events, or as many as the time allows; return the counts."""
    counts: Counter[str] = Counter()
    began = time.monotonic()
    while counts["syncs"] < syncs and time.monotonic() - began < seconds:
        life.all_synced(life.commit())
        counts["syncs"] += len(life.names)
        for event, times in EVENTS.items():
            due = int(counts["syncs"] * times / YEAR) + 1
            if counts[event.__name__] < due:
                event(life)
                counts[event.__name__] += 1
                life.all_synced(life.commit())
                counts["syncs"] += len(life.names)
        print(f"{time.monotonic() - began:.0f} s", dict(counts), usage(life), flush=True)
    return counts


def main() -> None:
    """Run it, and check what may not be lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--syncs", type=int, default=YEAR)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--applications", type=int, default=20)
    parser.add_argument("--other", type=Path, default=ROOT)
    options = parser.parse_args()
    names = tuple(f"app{number}" for number in range(options.applications))
    bin = postgres.programs()
    assert bin is not None, "PostgreSQL is needed"
    with (
        tempfile.TemporaryDirectory() as place,
        Sandbox() as sandbox,
        Proxy(int(sandbox.url.rpartition(":")[2])) as line,
        postgres.running(bin) as server,
        small_disk(Path(place) / "a", "256m"),
    ):
        folder = Path(place)
        world = World(folder, sandbox)
        world.kubeconfig.write_text(
            world.kubeconfig.read_text().replace(sandbox.url.rpartition(":")[2], str(line.port))
        )
        life = Life(world, line, server, replicas.new_database(server.url), options.other, names)
        world.namespace("shop")
        world.repo.commit("web", {f"{name}/web.yaml": deployment(f"{name}-web", replicas=1) for name in names})
        for name in names:
            world.application(name, destination={"namespace": "shop"}, sync={"retry": {"backoff": {"max": "5s"}}})
        try:
            life.start("a")
            life.start("b")
            life.all_synced(life.commit())
            deployments = "/apis/apps/v1/namespaces/shop/deployments"
            uids = {item["metadata"]["uid"] for item in world.client.get(deployments)["items"]}
            counts = live(life, options.syncs, options.seconds)
            live_deployments = world.client.get(deployments)["items"]
            assert {item["metadata"]["uid"] for item in live_deployments} == uids, "a workload was replaced"
            assert {item["metadata"]["generation"] for item in live_deployments} == {1}, "a workload was changed"
            records = SqlRecords(RecordDatabase(life.database))
            print("done:", dict(counts), "audit records:", len(records.audit_records(limit=10**9)))
            records.close()
        finally:
            for name in life.processes:
                life.end(name)
            world.close()


if __name__ == "__main__":
    main()
