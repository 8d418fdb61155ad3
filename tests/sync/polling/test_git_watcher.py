"""Queries of several Applications that wait for one Git server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from gitsync.errors import SourceUnavailable, UnexpectedError
from gitsync.objects.application import GitSource, parse_application
from gitsync.ports import Credentials, Source
from gitsync.runtime.clock import SystemClock
from gitsync.state.declarations import Declarations
from gitsync.sync.cache import GitCache
from gitsync.sync.polling.git_watcher import GitWatcher, Query
from tests.waiting import until

URL = "https://git.example/r.git"
APPS = [f"gitsync/app-{number}" for number in range(20)]
DAY, HOUR = 86_400.0, 3600.0


class Server:
    """A Git server that has one commit, or does not answer; ``ages`` are those that queries allowed."""

    def __init__(self) -> None:
        self.is_down = False
        self.ages: list[float] = []
        self.changed: dict[str, frozenset[str] | None] = {}
        """The paths that differ from an earlier commit."""

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """Return the commit of every revision."""
        self.ages.append(max_age)
        if self.is_down:
            raise SourceUnavailable("no answer")
        if source.revision == "defect":
            raise ZeroDivisionError("a value of a Secret")
        return "c" * 40

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        """Do nothing: the commit is there."""

    def changed_paths(self, source: GitSource, earlier: str, later: str) -> frozenset[str] | None:
        """Return the paths that differ."""
        return self.changed[earlier]


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def watcher(server: Server) -> Iterator[GitWatcher]:
    made = GitWatcher(cast("Source", server), Declarations(), SystemClock())
    yield made
    made.stop()


def answers(watcher: GitWatcher, revision: str = "main") -> list[object]:
    """Return the answers for Applications that all asked before the watcher started, each for a newer answer."""
    caches, enqueued, now = [GitCache() for _ in APPS], list[str](), SystemClock().monotonic()
    for number, (key, cache) in enumerate(zip(APPS, caches, strict=True)):
        source = {"repoURL": URL, "revision": revision, "path": key}
        name = key.partition("/")[2]
        manifest = {"metadata": {"name": name, "namespace": "gitsync"}, "spec": {"source": source, "destination": {}}}
        since = now - DAY + number * HOUR
        watcher.ask(key, Query(parse_application(manifest), Credentials(), since, cache))
    watcher.start(lambda key, is_urgent: enqueued.append(key))
    until(lambda: sorted(enqueued) == sorted(APPS))
    return [cache.answer.result for cache in caches if cache.answer is not None]


def test_queries_of_one_branch_share_the_newest_answer(watcher: GitWatcher, server: Server) -> None:
    assert answers(watcher) == ["c" * 40] * len(APPS)
    assert len(server.ages) == 1
    assert server.ages[0] < DAY - (len(APPS) - 2) * HOUR


def test_each_query_gets_an_error_of_its_own(watcher: GitWatcher, server: Server) -> None:
    server.is_down = True
    found = answers(watcher)
    assert all(isinstance(error, SourceUnavailable) for error in found)
    assert len(set(map(id, found))) == len(APPS)


def test_a_defect_is_an_answer_too(watcher: GitWatcher) -> None:
    found = answers(watcher, "defect")
    assert all(isinstance(error, UnexpectedError) for error in found)
    assert "gitsync has a defect (ZeroDivisionError, id " in str(found[0])
    assert "Secret" not in str(found[0])


@pytest.mark.parametrize("revision", ["defect", "moved"])
def test_a_poll_that_meets_a_defect_enqueues_those_who_follow(watcher: GitWatcher, revision: str) -> None:
    source = {"repoURL": URL, "revision": revision, "path": "x"}
    manifest = {"metadata": {"name": "a", "namespace": "gitsync"}, "spec": {"source": source, "destination": {}}}
    cache, enqueued = GitCache(), list[str]()
    watcher.start(lambda key, is_urgent: enqueued.append(key))
    query = Query(parse_application(manifest), Credentials(), SystemClock().monotonic(), cache)
    watcher.follow("gitsync/a", query, "b" * 40, frozenset({"x"}))
    watcher.poll_now(["gitsync/a"])
    until(lambda: enqueued == ["gitsync/a"])
    assert cache.notified_at is not None
    assert watcher.catch_up(query.app) is None, "it follows again after its own query"


@pytest.mark.parametrize(
    ("path", "reported", "changed", "is_urgent"),
    [
        ("team/app", "a" * 40, {"team/app/deployment.yaml"}, True),
        ("team/app", "a" * 40, {"team/app/base/deployment.yaml"}, True),
        ("./team/app/", "a" * 40, {"team/app/deployment.yaml"}, True),
        (".", "a" * 40, {"README.md"}, True),
        ("team/app", "a" * 40, {"team/apple/deployment.yaml", "team/app.yaml"}, False),
        ("team/app", "a" * 40, set(), False),
        ("team/app", "c" * 40, {"team/app/deployment.yaml"}, False),
        ("team/app", "a" * 40, None, True),  # the earlier commit is not known any more
        ("team/app", "", set(), True),  # new, or requested
    ],
)
def test_after_a_restart_those_come_first_whose_folders_changed(
    watcher: GitWatcher, server: Server, path: str, reported: str, changed: set[str] | None, is_urgent: bool
) -> None:
    server.changed = {"a" * 40: None if changed is None else frozenset(changed)}
    source = {"repoURL": URL, "revision": "main", "path": path}
    manifest = {"metadata": {"name": "a", "namespace": "gitsync"}, "spec": {"source": source, "destination": {}}}
    enqueued = list[tuple[str, bool]]()
    query = Query(parse_application(manifest), Credentials(), SystemClock().monotonic(), GitCache(), reported)
    watcher.ask("gitsync/a", query)
    watcher.start(lambda key, is_urgent: enqueued.append((key, is_urgent)))
    until(lambda: enqueued == [("gitsync/a", is_urgent)])


def test_an_answer_whose_changes_cannot_be_read_is_urgent(watcher: GitWatcher) -> None:
    source = {"repoURL": URL, "revision": "main", "path": "x"}
    manifest = {"metadata": {"name": "a", "namespace": "gitsync"}, "spec": {"source": source, "destination": {}}}
    enqueued = list[tuple[str, bool]]()
    cache = GitCache()
    # the server of this test knows no changes of this commit, so that reading them raises
    watcher.ask("gitsync/a", Query(parse_application(manifest), Credentials(), 0.0, cache, "b" * 40))
    watcher.start(lambda key, is_urgent: enqueued.append((key, is_urgent)))
    until(lambda: enqueued == [("gitsync/a", True)])
    assert cache.answer is not None
    assert cache.answer.result == "c" * 40
