"""The threads of queries among Git hosts that answer and those that do not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from gitsync.errors import SourceDenied, SourceUnavailable
from gitsync.objects.application import GitSource, parse_application
from gitsync.ports import Credentials, Source
from gitsync.runtime.clock import SystemClock
from gitsync.state.declarations import Declarations
from gitsync.sync.cache import GitCache
from gitsync.sync.polling.git_watcher import GitWatcher, Query
from gitsync.sync.polling.hosts import GitHosts
from tests.waiting import until


class HandClock(SystemClock):
    """A clock that the test moves."""

    seconds = 0.0

    def monotonic(self) -> float:
        """Return the seconds of the test."""
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def ask(hosts: GitHosts, url: str, clock: HandClock, seconds: float, error: Exception | None = None) -> None:
    """Query a URL that answers, or fails, after some seconds."""
    with hosts.query(url):
        clock.seconds += seconds
        if error is not None:
            raise error


def test_a_host_has_four_queries_at_a_time(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=32)
    for number in range(6):
        ask(hosts, f"https://a.example/{number}", clock, 0.1)
    assert [hosts.claim(f"https://a.example/{number}") for number in range(5)] == [True] * 4 + [False]
    hosts.release("https://a.example/0")
    assert hosts.claim("https://a.example/5")


def test_urls_of_a_host_that_hang_leave_queries_to_the_others(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=32)
    ask(hosts, "https://shared.example/good", clock, 0.1)
    for number in range(25):
        with pytest.raises(SourceUnavailable):
            ask(hosts, f"https://shared.example/hangs-{number}", clock, 10.0, SourceUnavailable("no answer"))
    assert [hosts.claim(f"https://shared.example/hangs-{number}") for number in range(3)] == [True, False, False]
    assert [hosts.claim(f"https://shared.example/new-{number}") for number in range(3)] == [True, True, False]
    ask(hosts, "https://shared.example/good", clock, 0.1)
    assert hosts.claim("https://shared.example/good")


def test_new_urls_that_hang_leave_a_query_to_one_that_answers(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=32)
    ask(hosts, "https://shared.example/good", clock, 0.1)
    assert [hosts.claim(f"https://shared.example/new-{number}") for number in range(5)] == [True] * 3 + [False] * 2
    assert hosts.claim("https://shared.example/good")


def test_hosts_that_did_not_answer_leave_threads_for_the_others(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=2)
    ask(hosts, "https://good.example/x", clock, 0.1)
    with pytest.raises(SourceDenied):
        ask(hosts, "https://denies.example/x", clock, 0.1, SourceDenied("no such repository"))
    assert [hosts.claim(f"https://new-{number}.example/x") for number in range(3)] == [True, True, False]
    assert hosts.claim("https://good.example/x")
    assert hosts.claim("https://denies.example/x"), "an error is an answer"


def test_a_host_that_stops_answering_backs_off_and_loses_its_threads(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=0)
    ask(hosts, "https://a.example/x", clock, 0.1)
    with pytest.raises(SourceUnavailable):
        ask(hosts, "https://a.example/x", clock, 10.0, SourceUnavailable("no answer"))
    with pytest.raises(SourceUnavailable, match=r"a\.example did not answer within 10 s; it is not queried for 30 s"):
        ask(hosts, "https://a.example/x", clock, 0.1)
    assert not hosts.claim("https://a.example/x")
    clock.seconds += 30.0
    ask(hosts, "https://a.example/x", clock, 0.1)
    assert hosts.claim("https://a.example/x")


def test_a_refused_connection_proves_nothing_of_a_server(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=1)
    with pytest.raises(SourceUnavailable):
        ask(hosts, "https://refuses.example/x", clock, 0.1, SourceUnavailable("connection refused"))
    assert hosts.claim("https://new.example/x")
    assert not hosts.claim("https://refuses.example/x")


def test_a_server_that_refuses_for_a_moment_stays_proven(clock: HandClock) -> None:
    hosts = GitHosts(clock, unproven=0)
    ask(hosts, "https://a.example/x", clock, 0.1)
    with pytest.raises(SourceUnavailable):
        ask(hosts, "https://a.example/x", clock, 0.1, SourceUnavailable("connection refused"))
    assert hosts.claim("https://a.example/x")


def test_urls_that_are_not_queried_any_more_are_forgotten(clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitsync.sync.polling.hosts._REMEMBERED", 3)
    hosts = GitHosts(clock, unproven=0)
    for number in range(9):
        ask(hosts, f"https://host-{number}.example/x", clock, 0.1)
    assert not hosts.claim("https://host-0.example/x")
    assert hosts.claim("https://host-8.example/x")


class Servers:
    """Git servers of which those named ``silent`` do not answer before the end of the test."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.waiting = 0

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """Return a commit, or wait."""
        if "silent" in source.repo_url:
            self.waiting += 1
            self.end.wait(60)
        return "c" * 40

    def fetch(self, source: GitSource, credentials: Credentials, commit: str, *, max_age: float = 0.0) -> None:
        """Do nothing: the commit is there."""


@pytest.fixture
def servers() -> Iterator[Servers]:
    made = Servers()
    yield made
    made.end.set()


def query(watcher: GitWatcher, host: str) -> GitCache:
    """Query a repository of a host; the cache gets its answer."""
    spec = {"source": {"repoURL": f"https://{host}.example/r", "path": "x"}, "destination": {}}
    app = parse_application({"metadata": {"name": host, "namespace": "gitsync"}, "spec": spec})
    cache = GitCache()
    watcher.ask(app.key, Query(app, Credentials(), SystemClock().monotonic(), cache))
    return cache


def test_fifty_hosts_that_do_not_answer_delay_no_other(servers: Servers) -> None:
    watcher = GitWatcher(cast("Source", servers), Declarations(), SystemClock())
    watcher.start(lambda key, is_urgent: None)
    try:
        first = query(watcher, "good")
        until(lambda: first.answer)
        for number in range(50):
            query(watcher, f"silent-{number}")
        until(lambda: servers.waiting >= 20)
        second = query(watcher, "good")
        assert until(lambda: second.answer).result == "c" * 40
        assert servers.waiting < 50
    finally:
        servers.end.set()
        watcher.stop()
