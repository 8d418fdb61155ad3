"""
Each kind of outage touches no workload, is one message with its cause and one at its end, and heals by itself.

They run with ``GITSYNC_OUTAGES=all``, print how long each took to heal, and let Prometheus evaluate the shipped alerts
where ``promtool`` is installed. What decides is tested without time: messages in ``tests/server/notify``, alerts by
recordings in ``tests/server/test_alerts.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from gitsync.runtime.clock import SystemClock
from gitsync.sandbox.faults import FaultKind, InjectedFault
from gitsync.sandbox.server import Sandbox
from gitsync.server.metrics import readiness_problem
from gitsync.server.notify.notices import Notice
from gitsync.server.notify.notifier import Notifier
from tests.flow.environment import World, is_synced
from tests.flow.factories import config_map, deployment
from tests.flow.tcp_proxy import Proxy
from tests.git_http_server import GitServer
from tests.server.record_outages import RETRIED, SETTLED, Series, grows, read
from tests.server.test_alerts import evaluated
from tests.small_disk import fill, small_disk
from tests.waiting import until

IS_COMPLETE = os.environ.get("GITSYNC_OUTAGES") == "all"
NAMES = ("app0", "app1", "app2")
"""As many as one message has in common."""
HEALED = 15.0
"""Seconds from the end of an outage until everything is as before."""


class Inbox:
    """A channel that keeps what it gets."""

    interval = 60.0
    settle = 10.0
    groups = True

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def wants(self, notice: Notice) -> bool:
        return notice.kind in ("failed", "degraded", "recovered")

    def send(self, notice: Notice) -> None:
        self.notices.append(notice)


class FastClock(SystemClock):
    """A clock of messages on which a minute takes 15 seconds."""

    def monotonic(self) -> float:
        return super().monotonic() * 4


@dataclass(slots=True)
class Rig:
    """A controller with what it depends on, and what it tells."""

    world: World
    line: Proxy
    git: GitServer
    inbox: Inbox
    commits: int = 1

    def inject(self, kind: FaultKind = FaultKind.ERROR, **fault: Any) -> None:
        """Let requests fail from now on; watches that are open end."""
        self.world.sandbox.inject(InjectedFault(kind, **fault))
        self.line.cut()

    def commit(self) -> str:
        """Commit a change of each Application."""
        self.commits += 1
        return self.world.repo.commit(f"commit {self.commits}", files(str(self.commits)))


def files(x: str) -> dict[str, str | None]:
    """Return a workload and its settings for each Application."""
    made: dict[str, str | None] = {}
    for name in NAMES:
        made[f"{name}/web.yaml"] = deployment(f"{name}-web", replicas=1)
        made[f"{name}/settings.yaml"] = config_map(f"{name}-settings", x=x)
    return made


Outage = Callable[[Rig], Iterator[None]]


def api(code: int, **fault: Any) -> Outage:
    """Return an outage in which the API server answers with an error."""

    def outage(rig: Rig) -> Iterator[None]:
        rig.inject(code=code, **fault)
        if fault.get("verb") in ("patch", "update"):
            rig.commit()
        yield
        rig.world.sandbox.clear_faults()

    return outage


def throttled(rig: Rig) -> Iterator[None]:
    rig.inject(FaultKind.THROTTLE, seconds=1.0)
    yield
    rig.world.sandbox.clear_faults()


def unreachable(rig: Rig) -> Iterator[None]:
    rig.line.down(True)
    yield
    rig.line.down(False)


def restarted(rig: Rig) -> Iterator[None]:
    """Stop the API server, and compact its history meanwhile: the watches of before are too old."""
    rig.line.down(True)
    yield
    rig.world.sandbox.inject(InjectedFault(FaultKind.EXPIRE_WATCH, verb="watch", count=20))
    rig.line.down(False)


def group_down(rig: Rig) -> Iterator[None]:
    rig.inject(FaultKind.GROUP_UNAVAILABLE, resource="deployments.apps")
    yield
    rig.world.sandbox.clear_faults()


def git_fails(code: int, part: str = "", retry_after: str = "") -> Outage:
    """Return an outage in which the Git server answers with an error."""

    def outage(rig: Rig) -> Iterator[None]:
        rig.git.failures[part] = code
        rig.git.retry_after = retry_after
        rig.commit()
        yield
        rig.git.failures.clear()
        rig.git.retry_after = ""

    return outage


def git_page(rig: Rig) -> Iterator[None]:
    rig.git.page = b"<html>sign in</html>"
    rig.commit()
    yield
    rig.git.page = b""


def git_credentials(rig: Rig) -> Iterator[None]:
    rig.git.accepted = {"ada:secret"}
    rig.commit()
    yield
    rig.git.accepted = None


def git_cut(rig: Rig) -> Iterator[None]:
    rig.git.cut = (-1, 0.5)
    rig.commit()
    yield
    rig.git.cut = (0, 0.0)


def repository_away(rig: Rig) -> Iterator[None]:
    bare = rig.world.repo.bare
    away = bare.with_name("away")
    bare.rename(away)
    yield
    away.rename(bare)


def branch_deleted(rig: Rig) -> Iterator[None]:
    bare = rig.world.repo.bare
    rig.world.repo.git("push", "-q", "origin", "HEAD:refs/heads/kept")
    ref = (bare / "refs/heads/main").read_text()
    (bare / "refs/heads/main").unlink()
    yield
    (bare / "refs/heads/main").write_text(ref)


def bad_commit(rig: Rig) -> Iterator[None]:
    rig.world.repo.commit("bad", {f"{name}/settings.yaml": "kind: [" for name in NAMES})
    yield
    rig.commit()


def refused_commit(rig: Rig) -> Iterator[None]:
    def labelled(label: str) -> dict[str, str | None]:
        text = config_map("more").replace("\ndata:\n", f"\n  labels: {{size: '{label}'}}\n")
        return {f"{name}/more.yaml": text for name in NAMES}

    rig.world.repo.commit("refused", labelled("not a label"))
    yield
    rig.world.repo.commit("fixed", labelled("small"))


def crashing(rig: Rig) -> Iterator[None]:
    def new(image: str) -> dict[str, str | None]:
        return {f"{name}/new.yaml": deployment(f"{name}-new", image=image) for name in NAMES}

    rig.world.repo.commit("broken", new("web:crash"))
    yield
    rig.world.repo.commit("fixed", new("web:1"))


def database(rig: Rig) -> Iterator[None]:
    """Take the history database away, as a volume that is not mounted."""
    data = rig.world.folder / "data"
    kept = {file: file.read_bytes() for file in data.glob("*.db*")}
    for file in kept:
        file.write_bytes(b"not a database" * 1000)
    # where nothing has to be applied, nothing fails
    rig.commit()
    yield
    for file, content in kept.items():
        file.write_bytes(content)


def disk(rig: Rig) -> Iterator[None]:
    filler = fill(rig.world.folder / "data")
    rig.commit()
    yield
    filler.unlink()


def clock(minutes: int) -> Outage:
    """Return an outage in which the clock of the controller is wrong."""

    def outage(rig: Rig) -> Iterator[None]:
        now = SystemClock.now
        wrong: Callable[[SystemClock], datetime] = lambda self: now(self) + timedelta(minutes=minutes)  # noqa: E731
        with mock.patch.object(SystemClock, "now", wrong):
            yield

    return outage


@dataclass(frozen=True, slots=True)
class Kind:
    """An outage with what it has to cause: the alert, the cause in the message (empty: none), and readiness."""

    outage: Outage
    alert: str
    cause: str = ""
    is_ready: bool = True
    settled: float = SETTLED


ANSWER = "injected by a fault of the sandbox"
API = "GitsyncApiErrors"
GIT = "GitsyncSourceNotReady"
FAILED = "GitsyncApplicationsFailed"
KINDS: dict[str, Kind] = {
    "line cut": Kind(unreachable, API, "was not answered|Connection refused|may be out of date", is_ready=False),
    "restart with compaction": Kind(restarted, API, "was not answered|may be out of date", is_ready=False),
    "503": Kind(api(503), API, ANSWER, is_ready=False),
    "500": Kind(api(500), API, ANSWER, is_ready=False),
    "429": Kind(throttled, API, "too many requests", is_ready=False),
    "401": Kind(api(401), "GitsyncApiUnauthorized", "credentials", is_ready=False),
    "403": Kind(api(403), "GitsyncNotReady", ANSWER, is_ready=False),
    "403 of a kind": Kind(api(403, resource="configmaps"), "GitsyncApplicationsUnknown", f"ConfigMap.*{ANSWER}"),
    "403 of writes": Kind(api(403, verb="patch", resource="configmaps"), FAILED, "ConfigMap"),
    "403 of Leases": Kind(api(403, resource="leases.coordination.k8s.io"), "GitsyncNotReady", is_ready=False),
    "403 of status": Kind(
        api(403, resource="applications.gitsync.dev", verb="update"), "GitsyncStatusDenied", settled=RETRIED
    ),
    "404 of our kind": Kind(api(404, resource="applications.gitsync.dev"), "GitsyncNotReady", is_ready=False),
    "500 of writes": Kind(api(500, verb="patch", resource="configmaps"), API, "configmaps.*500"),
    "504 of writes": Kind(api(504, verb="patch", resource="configmaps"), API, "configmaps.*504"),
    "413 of writes": Kind(api(413, verb="patch", resource="configmaps"), FAILED, "ConfigMap"),
    # of few requests, those of the group are many; of a large installation, Applications that are Unknown are the alert
    "group down": Kind(group_down, API, "apps"),
    "Git 500": Kind(git_fails(500), GIT, "500"),
    "Git 502": Kind(git_fails(502), GIT, "502"),
    "Git 403": Kind(git_fails(403), GIT, "403|denied"),
    "Git 404": Kind(git_fails(404), GIT, "no such repository"),
    "Git 429": Kind(git_fails(429), GIT, "429"),
    "Git 429 with a delay": Kind(git_fails(429, retry_after="2"), GIT, "429"),
    "Git 503 of fetches": Kind(git_fails(503, " fetch"), GIT, "503"),
    "Git page": Kind(git_page, GIT, "web page|not a Git|no Git"),
    "Git credentials": Kind(git_credentials, GIT, "credentials|username"),
    "Git cut": Kind(git_cut, GIT, "."),
    "repository away": Kind(repository_away, GIT, "."),
    "branch deleted": Kind(branch_deleted, GIT, "main"),
    "bad commit": Kind(bad_commit, FAILED, "settings.yaml"),
    "refused commit": Kind(refused_commit, FAILED, "not a label"),
    "crashing": Kind(crashing, "GitsyncApplicationsDegraded", "new"),
    "database": Kind(database, "GitsyncDatabaseDown", "database", is_ready=False),
    # what is read still answers, and the dashboard shows why nothing is applied
    "disk": Kind(disk, "GitsyncDiskFull", "No space left"),
    "clock late": Kind(clock(-5), "GitsyncClockWrong"),
    "clock early": Kind(clock(5), "GitsyncClockWrong"),
}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with three_applications(tmp_path) as made:
        yield made


@contextmanager
def three_applications(tmp_path: Path) -> Iterator[Rig]:
    """Three Applications that are in sync and healthy."""
    with ExitStack() as stack:
        sandbox = stack.enter_context(Sandbox())
        place = stack.enter_context(small_disk(tmp_path / "disk", "64m"))
        line = stack.enter_context(Proxy(int(sandbox.url.rpartition(":")[2])))
        world = World(tmp_path, sandbox)
        stack.callback(world.close)
        git = stack.enter_context(GitServer(world.folder / "git"))
        config = world.kubeconfig.read_text().replace(sandbox.url.rpartition(":")[2], str(line.port))
        world.kubeconfig = tmp_path / "through-the-proxy"
        world.kubeconfig.write_text(config)
        (tmp_path / "data").symlink_to(place)
        commit = world.repo.commit("first", files("1"))
        host = git.url("").split("/")[2]
        for name in NAMES:
            world.namespace(name)
            world.application(name, source={"repoURL": git.url("origin.git"), "path": name})
        engine = world.start(git_http_hosts=host)
        inbox = Inbox()
        notifier = Notifier(engine.view, FastClock(), [inbox], lambda key: True)
        for name in NAMES:
            world.synced(commit, name)
            until(lambda name=name: world.status(name).get("health") == "Healthy")  # type: ignore[misc]
        notifier.start()
        until(lambda: notifier.is_ready)
        stack.callback(notifier.stop)
        yield Rig(world, line, git, inbox)


def workloads(world: World) -> dict[str, tuple[str, Any]]:
    """Return uid and generation, or restarts, of what users run; settings may change by a commit."""
    running = {}
    for name in NAMES:
        for path in (f"/apis/apps/v1/namespaces/{name}/deployments", f"/api/v1/namespaces/{name}/pods"):
            for item in world.client.get(path)["items"]:
                if "-new" not in item["metadata"]["name"]:
                    metadata = item["metadata"]
                    running[f"{name}/{metadata['name']}"] = (metadata["uid"], metadata.get("generation"))
    return running


def problem(rig: Rig) -> str:
    """Return why the controller is not ready, as ``/readyz`` does; empty where it is."""
    return readiness_problem(rig.world.controller)


def is_well(rig: Rig) -> bool:
    """Whether all Applications have their newest commit, are healthy, and the controller is ready."""
    newest = rig.world.repo.git("rev-parse", "HEAD")
    statuses = rig.world.statuses()
    return not problem(rig) and all(
        is_synced(statuses[name], newest) and statuses[name].get("health") == "Healthy" for name in NAMES
    )


@pytest.mark.timeout(600)
@pytest.mark.skipif(not IS_COMPLETE, reason="GITSYNC_OUTAGES=all runs them, for half an hour")
@pytest.mark.parametrize("name", sorted(KINDS))
def test_an_outage_is_one_message_and_heals_by_itself(rig: Rig, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    running = workloads(rig.world)
    before = read(rig.world)
    with contextmanager(kind.outage)(rig):
        if kind.cause:
            until(lambda: rig.inbox.notices, describe=lambda: str(rig.world.statuses()))
        if not kind.is_ready:
            until(lambda: problem(rig))
        time.sleep(kind.settled)
        during = read(rig.world)
        is_ready = not problem(rig)
        # due every ten minutes: the age of the oldest success grows for ever only where these do not succeed
        rig.world.controller.requests.poll_now([f"gitsync/{name}" for name in NAMES])
        time.sleep(kind.settled)
        later = read(rig.world)
    ended = time.monotonic()
    until(lambda: is_well(rig), describe=lambda: f"{problem(rig)} {rig.world.statuses()}")
    seconds = time.monotonic() - ended
    if kind.cause:
        until(lambda: len(rig.inbox.notices) > 1, describe=lambda: str(rig.inbox.notices))
        assert len(rig.inbox.notices) == 2, [(notice.title, notice.text) for notice in rig.inbox.notices]
        failure, end = rig.inbox.notices
        assert (len(failure.members), len(end.members), end.kind) == (len(NAMES), len(NAMES), "recovered")
        assert re.search(kind.cause, failure.text), failure.text
    assert is_ready is kind.is_ready
    assert workloads(rig.world) == running
    assert seconds < HEALED
    print(f"{name}: healed {seconds:.1f} s after its end; {[notice.title for notice in rig.inbox.notices]}")
    if shutil.which("promtool"):
        assert evaluated(tmp_path, _recorded(before, during, later, kind.settled), kind.alert) == ""


def _recorded(before: Series, during: Series, later: Series, settled: float) -> dict[str, list[float | None]]:
    """Return a recording of an outage: each series before and during it, and what it grows by in a minute."""
    recording: dict[str, list[float | None]] = {}
    for key in before.keys() | during.keys():
        since = later.get(key, 0.0)
        growth = max(since - during.get(key, 0.0), 0.0) * 60 / settled if grows(key) else 0.0
        # what succeeded since then is reconciled again: its age is bounded, whatever the clock said before
        if key.startswith("gitsync_oldest_look") and since < settled:
            growth = 0.0
        recording[key] = [before.get(key), during.get(key), growth]
    return recording
