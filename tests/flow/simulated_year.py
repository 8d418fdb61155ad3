"""
Let two replicas live through a year in hours: ``python -m tests.flow.simulated_year --syncs 30000``.

Commits change all Applications, and between them come the events of ``EVENTS``, spread evenly. Beside them, further
Applications poll repositories that the Git server does not have. It ends with the first thing that is lost or stuck:
each commit has to be synced by each Application, with its record of history and of the audit. Memory, descriptors,
threads, disk and database have to stay flat (``check_flat``), mirrors of Git as large as its history
(``check_mirrors``). ``--other CHECKOUT`` is another version, with which a replica runs in turn.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import yaml

from gitsync.cluster.client import DirectClient
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.errors import RecordUnavailable
from gitsync.files import PRIVATE, write_file
from gitsync.objects.record import Outcome
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.http.transport.tls import make_certificate
from gitsync.sandbox.server import Sandbox
from tests import postgres, replicas
from tests.flow.environment import NAMESPACE, World, is_synced
from tests.flow.factories import config_map, deployment
from tests.flow.tcp_proxy import Proxy
from tests.git_http_server import GitServer
from tests.small_disk import fill, small_disk
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0
YEAR = 30_000
"""Syncs of a year."""
RETRY = 3.0
"""Seconds from a failed poll of a repository to the next one."""
AUDIT = 10_000
"""Audit records that the replicas keep: with all of a year the database could not be flat."""


@dataclass(slots=True)
class Life:
    """Two replicas, and all that they depend on."""

    world: World
    line: Proxy
    git: GitServer
    server: postgres.Postgres
    database: str
    other: Path
    names: tuple[str, ...]
    records: SqlRecords
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    commits: int = 0
    without_history: int = 0
    """Syncs that the audit has and the history has not."""
    account: str = ""
    """The ServiceAccount of the replicas."""

    @property
    def kubeconfig(self) -> Path:
        """The file of the replicas."""
        return self.world.folder / "replicas.kubeconfig"

    @property
    def authority(self) -> Path:
        """The file with the certificate of the Git server's authority."""
        return self.world.folder / "git-ca.crt"

    def start(self, name: str, checkout: Path = ROOT) -> None:
        """Start a replica, of another version where its checkout is named."""
        settings = {
            "GITSYNC_REPLICAS": "true",
            "GITSYNC_DATABASE": self.database,
            "GITSYNC_AUDIT_RECORDS": str(AUDIT),
            "GITSYNC_GIT_CA": str(self.authority),
        }
        # each version has a script that knows its settings
        script = [sys.executable, str(checkout / "tests/flow/controller_process.py"), str(self.kubeconfig)]
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
        """Wait until all Applications are synced to a commit, and until the audit has that; count it in the history."""

        def are_synced() -> bool:
            statuses = self.world.statuses()
            return all(is_synced(statuses[name], commit) for name in self.names)

        until(are_synced, PATIENCE, lambda: self.behind(commit))
        until(lambda: not self.without_audit(commit), PATIENCE, lambda: str(self.without_audit(commit)))
        newest = self.records.history(limit=5 * len(self.names))
        recorded = {item.application for item in newest if item.commit.id == commit and item.outcome is _SUCCEEDED}
        # a replica that ends between the last write and the record leaves the audit alone
        self.without_history += len(self.owners - recorded)

    def behind(self, commit: str) -> str:
        """Return how many Applications are not synced to a commit, and what the status of one says."""
        statuses = self.world.statuses()
        late = {name: statuses[name] for name in self.names if not is_synced(statuses[name], commit)}
        members = self.world.client.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases")["items"]
        return f"{commit}: {len(late)} are not synced: {[*late][:20]}, {next(iter(late.values()), '')}; {members}"

    @property
    def owners(self) -> set[str]:
        """The Applications as records name them."""
        return {f"{NAMESPACE}/{name}" for name in self.names}

    def without_audit(self, commit: str) -> set[str]:
        """Return the Applications whose write of a commit has no record of its success."""
        try:
            newest = self.records.audit_records(limit=20 * len(self.names))
        except RecordUnavailable:  # a connection from before a restart of the database
            return self.owners
        written = {
            item.application
            for item in newest
            if item.commit == commit and item.resource and item.outcome is _SUCCEEDED
        }
        return self.owners - written

    def sign_in(self) -> None:
        """Give the replicas a new account and password, and end what was accepted until now."""
        former = self.account
        self.account = f"life-{self.commits}"
        self.world.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": self.account, "namespace": NAMESPACE},
            }
        )
        self.world.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "life"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [
                    {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
                    for name in (former, self.account)
                    if name
                ],
            }
        )
        accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = self.world.client.send("POST", f"{accounts}/{self.account}/token", request)
        config = yaml.safe_load(self.world.sandbox.kubeconfig(self.world.kubeconfig).read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": answer["status"]["token"]}
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.line.port}"
        write_file(self.kubeconfig, yaml.safe_dump(config), PRIVATE)
        if former:
            self.world.client.send("DELETE", f"{accounts}/{former}", {})
        password = f"password {self.commits}"
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": NAMESPACE}}
        self.world.apply({**secret, "stringData": {"username": "git", "password": password}})
        self.git.accepted = {f"git:{password}"}


_SUCCEEDED = Outcome.SUCCEEDED


def force_push(life: Life) -> None:
    """Replace the newest commit by another one until every Application has refused it, and push the former again."""
    life.world.repo.git("commit", "-q", "--amend", "-m", f"forced {life.commits}")
    life.world.repo.push()

    def are_refused() -> bool:
        statuses = life.world.statuses()
        return all("non-fast-forward" in str(statuses[name]) for name in life.names)

    until(are_refused, PATIENCE, lambda: life.behind("forced"))
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
    """Replace certificates and authorities of API server and Git server, the token, and the password of Git."""
    life.world.sandbox.rotate()
    certificate = make_certificate()
    assert life.git.context is not None
    certificate.load(life.git.context)
    write_file(life.authority, certificate.authority, PRIVATE)
    life.sign_in()


EVENTS: dict[Callable[[Life], None], int] = {
    force_push: 50,
    other_version: 10,  # each an upgrade and a downgrade
    api_server: 10,
    database: 10,
    disk: 5,
    rotated: 12,
    killed: 12,
}
"""What happens how often in a year."""


GROWTH = 1.15
"""How much more may be used at the end than after a fifth, as a factor, and besides in MiB or numbers:"""
SLACK = {
    f"{name} {what}": slack
    for name in "ab"
    for what, slack in {"memory": 10, "threads": 4, "descriptors": 10, "disk": 3}.items()
} | {"database": 3}


def usage(life: Life) -> dict[str, float]:
    """Return what the replicas use: MiB, numbers, and the size of the database in MiB."""
    result: dict[str, float] = {}
    for name, process in life.processes.items():
        proc = Path(f"/proc/{process.pid}")
        fields = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        result[f"{name} memory"] = int(fields["VmRSS"].split()[0]) // 1024
        result[f"{name} threads"] = int(fields["Threads"])
        result[f"{name} descriptors"] = len(list((proc / "fd").iterdir()))
        result[f"{name} disk"] = round(size_of(life.world.folder / name, "mirrors") / 2**20, 1)
    with psycopg.connect(life.database) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        result["database"] = round(row[0] / 2**20, 1)
    return result


def size_of(folder: Path, without: str = "") -> int:
    """Return the bytes of the files below a folder, of which some are renamed and deleted meanwhile."""
    size = 0
    for place, folders, names in os.walk(folder):
        folders[:] = (name for name in folders if name != without)
        for name in names:
            with suppress(FileNotFoundError):
                size += Path(place, name).lstat().st_size
    return size


def live(life: Life, syncs: int, seconds: float) -> Counter[str]:
    """Let this many syncs happen with their share of the events, or as many as the time allows; return the counts."""
    counts: Counter[str] = Counter()
    samples: list[dict[str, float]] = []
    began = time.monotonic()
    failed = life.git.failed
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
        samples.append(usage(life))
        elapsed = time.monotonic() - began
        rate = (life.git.failed - failed) * 60 / elapsed
        line = f"{rate:.0f} failed polls a minute, {life.without_history} not in the history"
        print(f"{elapsed:.0f} s", dict(counts), line, samples[-1], flush=True)
    check_flat(samples)
    return counts


def check_flat(samples: Sequence[dict[str, float]]) -> None:
    """Compare the most that was used in the last fifth of the samples with that from 20 to 40 % of them."""
    fifth = len(samples) // 5
    if not fifth:
        return
    for name, slack in SLACK.items():
        early, late = (max(sample[name] for sample in part) for part in (samples[fifth : 2 * fifth], samples[-fifth:]))
        print(f"{name}: {early} at the beginning, {late} at the end")
        assert late <= GROWTH * early + slack, f"{name} grew from {early} to {late}"


def check_mirrors(life: Life) -> None:
    """Compare what the replicas keep of Git with a new clone; what was fetched lately may double it."""
    clone = life.world.folder / "clone.git"
    subprocess.run(["git", "clone", "-q", "--bare", "--no-local", life.world.repo.bare, clone], check=True)
    history = size_of(clone)
    for name in life.processes:
        kept = size_of(life.world.folder / name / "mirrors")
        print(f"{name} mirrors: {kept >> 10} KiB, a clone {history >> 10} KiB")
        assert kept <= 2 * history + (2 << 20), f"the mirrors of {name} take {kept} bytes"


def main() -> None:
    """Run it, and check what may not be lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--syncs", type=int, default=YEAR)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--applications", type=int, default=20)
    parser.add_argument("--failing", type=int, default=100, help="repositories that the Git server does not have")
    parser.add_argument("--other", type=Path, default=ROOT)
    options = parser.parse_args()
    names = tuple(f"app{number}" for number in range(options.applications))
    bin = postgres.programs()
    assert bin is not None, "PostgreSQL is needed"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that what runs beside it ends too
    with (
        tempfile.TemporaryDirectory() as place,
        Sandbox() as sandbox,
        Proxy(int(sandbox.url.rpartition(":")[2])) as line,
        GitServer(Path(place) / "git", make_certificate()) as git,
        postgres.running(bin) as server,
        small_disk(Path(place) / "a", "256m"),
    ):
        world = World(Path(place), sandbox)
        world.client.close()
        # certificates and tokens are replaced, and the line is cut: what tests do here passes neither
        world.client = DirectClient(sandbox.answer)
        world.cluster = KubernetesCluster(world.client)
        url = replicas.new_database(server.url)
        life = Life(world, line, git, server, url, options.other, names, SqlRecords(RecordDatabase(url)))
        git.failures["/absent"] = 404
        rotated(life)
        world.namespace("shop")
        world.repo.commit("web", {f"{name}/web.yaml": deployment(f"{name}-web", replicas=1) for name in names})
        repositories = dict.fromkeys(names, ("origin", 1.0))
        repositories |= {f"absent{number}": (f"absent{number}", RETRY) for number in range(options.failing)}
        for name, (repository, interval) in repositories.items():
            source = {"repoURL": git.url(f"{repository}.git"), "credentials": {"secretRef": {"name": "git"}}}
            sync = {"interval": f"{interval:.0f}s", "retry": {"backoff": {"max": "5s"}}}
            world.application(name, source=source, destination={"namespace": "shop"}, sync=sync)
        try:
            life.start("a")
            life.start("b")
            life.all_synced(life.commit())
            deployments = "/apis/apps/v1/namespaces/shop/deployments"
            uids = {item["metadata"]["uid"] for item in world.client.get(deployments)["items"]}
            counts = live(life, options.syncs, options.seconds)
            check_mirrors(life)
            live_deployments = world.client.get(deployments)["items"]
            assert {item["metadata"]["uid"] for item in live_deployments} == uids, "a workload was replaced"
            assert {item["metadata"]["generation"] for item in live_deployments} == {1}, "a workload was changed"
            assert not life.records.verify(), life.records.verify()
            assert not life.records.unresolved(), life.records.unresolved()
            print("done:", dict(counts))
        finally:
            for name in life.processes:
                life.end(name)
            for name in life.processes:
                said = [
                    line for line in (world.folder / f"{name}.log").read_text().splitlines() if line != "status changed"
                ]
                print(f"end of the log of {name}:", *said[-100:], sep="\n")
            life.records.close()
            world.close()


if __name__ == "__main__":
    main()
