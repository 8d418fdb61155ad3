"""
Applications that follow names of a repository while names appear, move and vanish, and specs change at any time.

A model knows which commit each name has. Whatever happened, two intervals after the last change each Application is at
the commit of its name, and no name that exists is reported as missing. Time is simulated; git and the mirror are real.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from gitsync.errors import InvalidInput, MissingRevision, SourceUnavailable
from gitsync.ports import Cluster, LiveCache
from gitsync.runtime.workqueue import WorkQueue
from gitsync.source.repositories import Repositories
from gitsync.state.declarations import Declarations
from gitsync.sync.cache import GitCache
from gitsync.sync.input import ReconcileInput
from gitsync.sync.polling.fetch import Fetcher, QueryDue, RevisionFollower
from gitsync.sync.polling.git_watcher import GitWatcher
from tests.git_http_server import GitServer
from tests.git_repository import GitRepo, git

INTERVAL = 20
COMMITS = 8
NAMES = {
    "main": ("refs/heads/main",),
    "feature": ("refs/heads/feature",),
    "1.x": ("refs/heads/1.x", "refs/tags/v1.0.0"),
    "v1.0.0": ("refs/tags/v1.0.0",),
}
"""Revisions, and the refs that they name; the first one that exists counts: a branch, then the range of versions."""
REFS = sorted({ref for refs in NAMES.values() for ref in refs})


@dataclass
class SimulatedClock:
    """A clock that only the test moves."""

    time: float = 10_000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time


class SteppedWatcher(GitWatcher):
    """A watcher without threads: it queries what is due when a test says so."""

    def report_to(self, enqueue: Callable[[str], None]) -> None:
        """Enqueue Applications with this, without starting threads."""
        self._enqueue_application = enqueue

    def step(self) -> None:
        """Answer all queries that are due."""
        while (url := self._queue.get(timeout=0)) is not None:
            self._controller._once(url)
            self._queue.done(url)


@dataclass
class Follower:
    """One Application: the revision in its spec, what it is at, and how its last reconcile failed."""

    revision: str
    cache: GitCache = field(default_factory=GitCache)
    commit: str = ""
    failure: Exception | None = None


class Replica:
    """A controller that reconciles Applications as the pipeline does, up to the commit that they follow."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self.clock = SimulatedClock()
        self.apps: dict[str, Follower] = {}
        self.source = Repositories(folder, schemes=("file", "http"), clock=self.clock.monotonic)
        self.watcher = SteppedWatcher(self.source, Declarations(), self.clock, random=lambda: 0.5)
        nothing: Any = None
        fetcher = Fetcher(
            self.source, nothing, cast("Cluster", nothing), cast("LiveCache", nothing), self.clock, waits=False
        )
        self.revision = RevisionFollower(fetcher, self.watcher)
        self.queue: WorkQueue[str] = WorkQueue(monotonic=self.clock.monotonic)
        self.watcher.report_to(self.queue.add)

    def set_revision(self, name: str, revision: str) -> None:
        """Create an Application, or edit its spec."""
        self.apps.setdefault(f"gitsync/{name}", Follower(revision)).revision = revision
        self.queue.add(f"gitsync/{name}")

    def push_event(self) -> None:
        """Take a push event of the repository."""
        for key in self.watcher.poll_now(list(self.apps)):
            self.apps[key].cache.notified_at = self.clock.time
            self.queue.add(key)

    def run(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.clock.time += 1
            self.watcher.step()
            self.reconcile_all()
            self.watcher.step()
            self.reconcile_all()

    def reconcile_all(self) -> None:
        """Reconcile the Applications that are due."""
        while (key := self.queue.get(timeout=0)) is not None:
            self._reconcile(key)
            self.queue.done(key)

    def _reconcile(self, key: str) -> None:
        app = self.apps[key]
        try:
            self._follow(key, app)
        except QueryDue:
            pass
        except SourceUnavailable as error:
            app.failure = error
            self.queue.add_after(key, error.retry_after or 1.0)

    def _follow(self, key: str, app: Follower) -> None:
        namespace, _, name = key.partition("/")
        source = {"repoURL": self.url, "revision": app.revision, "path": "x"}
        manifest = {
            "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
            "spec": {"source": source, "sync": {"interval": f"{INTERVAL}s"}},
            "status": {},
        }
        given = ReconcileInput.parse(manifest, self.clock.now())
        polled = self.revision.poll(given, app.cache)
        if not polled.is_due:
            self.queue.add_after(key, polled.requeue_after)
        try:
            app.commit = self.revision.checkout(given, app.cache).id
            app.failure = polled.error
        except InvalidInput as error:
            app.failure = error
            return
        self.revision.watch(app.cache, polled, app.commit, frozenset({"x/"}))


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    """A repository with a line of commits that no ref but ``main`` has."""
    made = GitRepo(tmp_path_factory.mktemp("git"))
    for number in range(COMMITS):
        made.commit({"x/a.yaml": f"a: {number}", "other.yaml": str(number // 2)})
    git(made.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    return made


def commits_of(repo: GitRepo) -> list[str]:
    return git(repo.origin, "rev-list", "--reverse", "main").split()


def set_ref(origin: Path, ref: str, commit: str) -> None:
    """Point a ref to a commit, or delete it."""
    git(origin, "update-ref", *(("-d", ref) if not commit else (ref, commit)))


class FollowedNames(RuleBasedStateMachine):
    """Names and specs change; see the module for what has to hold."""

    repo: GitRepo

    @initialize()
    def start(self) -> None:
        self.folder = TemporaryDirectory(prefix="gitsync-model-")
        self.origin = Path(self.folder.name) / "origin.git"
        shutil.copytree(self.repo.origin, self.origin)
        self.commits = commits_of(self.repo)
        self.refs: dict[str, str] = {}
        self._move("refs/heads/main", 0)
        self.replica = Replica(Path(self.folder.name) / "mirrors", f"file://{self.origin}")
        self.replica.set_revision("a", "main")
        self.replica.run(1)

    @rule(ref=st.sampled_from(REFS), number=st.integers(0, COMMITS - 1))
    def push(self, ref: str, number: int) -> None:
        self._move(ref, number)

    @rule(ref=st.sampled_from([ref for ref in REFS if ref != "refs/heads/main"]))
    def delete(self, ref: str) -> None:
        if self.refs.pop(ref, None):
            set_ref(self.origin, ref, "")

    @rule(name=st.sampled_from("ab"), revision=st.sampled_from(sorted(NAMES)))
    def edit(self, name: str, revision: str) -> None:
        self.replica.set_revision(name, revision)

    @rule()
    def push_event(self) -> None:
        self.replica.push_event()

    @rule(seconds=st.sampled_from((1, 3, 8, 15, 21, 45)))
    def wait(self, seconds: int) -> None:
        self.replica.run(seconds)

    @rule()
    def settle(self) -> None:
        self.replica.run(2 * INTERVAL)
        for key, app in self.replica.apps.items():
            commit = next((self.refs[ref] for ref in NAMES[app.revision] if ref in self.refs), "")
            if commit:
                assert app.failure is None, (key, app.revision)
                assert app.commit == commit, (key, app.revision)
            else:
                assert isinstance(app.failure, MissingRevision), (key, app.revision)

    def teardown(self) -> None:
        if not hasattr(self, "replica"):
            return
        try:
            self.settle()
        finally:
            self.replica.source.close()
            self.folder.cleanup()

    def _move(self, ref: str, number: int) -> None:
        self.refs[ref] = self.commits[number]
        set_ref(self.origin, ref, self.commits[number])


def test_each_application_reaches_the_commit_of_its_name(repo: GitRepo) -> None:
    FollowedNames.repo = repo
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        FollowedNames,
        settings=settings(
            max_examples=20, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_a_name_that_is_pushed_after_the_spec_names_it_is_found(tmp_path: Path, repo: GitRepo) -> None:
    """While an Application waits for a name, polls of the branch that it followed before are none of its own."""
    shutil.copytree(repo.origin, tmp_path / "origin.git")
    replica = Replica(tmp_path / "mirrors", f"file://{tmp_path / 'origin.git'}")
    replica.set_revision("a", "main")
    replica.run(INTERVAL)
    replica.set_revision("a", "v1.0.0")
    replica.run(INTERVAL)
    assert isinstance(replica.apps["gitsync/a"].failure, MissingRevision)
    commit = commits_of(repo)[2]
    set_ref(tmp_path / "origin.git", "refs/tags/v1.0.0", commit)
    replica.run(2 * INTERVAL)
    assert replica.apps["gitsync/a"].failure is None
    assert replica.apps["gitsync/a"].commit == commit
    replica.source.close()


def test_an_answer_for_the_former_revision_is_not_taken(tmp_path: Path, repo: GitRepo) -> None:
    """A spec may be edited while the query of the former revision is under way."""
    origin = tmp_path / "origin.git"
    shutil.copytree(repo.origin, origin)
    commits = commits_of(repo)
    set_ref(origin, "refs/heads/feature", commits[1])
    replica = Replica(tmp_path / "mirrors", f"file://{origin}")
    replica.set_revision("a", "main")
    replica.reconcile_all()  # asks for main
    replica.watcher.step()
    replica.set_revision("a", "feature")
    replica.run(1)
    assert replica.apps["gitsync/a"].commit == commits[1]
    replica.source.close()


def filtering(server: GitServer, origin: Path) -> None:
    git(origin, "config", "uploadpack.allowFilter", "true")


def first_version(server: GitServer, origin: Path) -> None:
    server.is_old = True


def redirecting(server: GitServer, origin: Path) -> None:
    server.redirects["/moved.git"] = "/origin.git"


def slow(server: GitServer, origin: Path) -> None:
    server.trickle = 0.0002


KINDS = {"filters": filtering, "version 0": first_version, "redirects": redirecting, "slow": slow}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with GitServer(tmp_path) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_followed_at_each_kind_of_server(tmp_path: Path, repo: GitRepo, server: GitServer, kind: str) -> None:
    origin = tmp_path / "origin.git"
    shutil.copytree(repo.origin, origin)
    KINDS[kind](server, origin)
    commits = commits_of(repo)
    replica = Replica(tmp_path / "mirrors", server.url("moved.git" if kind == "redirects" else "origin.git"))

    def at(name: str) -> str:
        app = replica.apps[f"gitsync/{name}"]
        return str(app.failure) if app.failure else app.commit

    set_ref(origin, "refs/heads/main", commits[0])
    replica.set_revision("a", "main")
    replica.run(INTERVAL)
    assert at("a") == commits[0]
    set_ref(origin, "refs/heads/feature", commits[1])
    replica.run(2)
    replica.set_revision("b", "feature")  # the last list of refs is older than the branch
    replica.run(2)
    assert at("b") == commits[1]
    set_ref(origin, "refs/tags/v1.0.0", commits[2])
    replica.set_revision("a", "v1.0.0")
    replica.run(2)
    assert at("a") == commits[2]
    set_ref(origin, "refs/heads/feature", "")
    replica.run(2 * INTERVAL)
    assert "the revision 'feature' does not exist" in at("b")
    set_ref(origin, "refs/heads/feature", commits[3])
    replica.run(2 * INTERVAL)
    assert at("b") == commits[3]
    replica.source.close()
