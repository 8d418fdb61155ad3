"""A reflector keeps its copy true through everything a watch can do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from gitsync.errors import ClusterUnavailable, GroupUnavailable
from gitsync.runtime.reflector import Event, Expired, Listing, Reflector
from gitsync.runtime.workqueue import Backoff
from tests.waiting import until

Script = list[Event | Exception | None]


class Watch:
    """Play a script, then stay open until closed; None ends the watch."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._closed = threading.Event()

    def __iter__(self) -> Iterator[Event]:
        for step in self._script:
            if step is None:
                return
            if isinstance(step, Exception):
                raise step
            yield step
        self._closed.wait()

    def close(self) -> None:
        self._closed.set()


class Server:
    """Answer lists and watches from scripts; the last one of each is repeated."""

    def __init__(self, lists: list[Listing | Exception], watches: list[Script]) -> None:
        self.lists, self.watches = lists, watches
        self.listed = 0
        self.asked: list[str] = []

    def list(self) -> Listing:
        answer = self.lists[min(self.listed, len(self.lists) - 1)]
        self.listed += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def watch(self, version: str) -> Watch:
        self.asked.append(version)
        return Watch(self.watches[min(len(self.asked), len(self.watches)) - 1])


class Copy:
    """A store that is a dict."""

    def __init__(self) -> None:
        self.items: dict[str, Any] = {}

    def replace(self, items: Mapping[str, Any], version: str) -> None:
        self.items = dict(items)

    def put(self, key: str, item: Any) -> None:
        self.items[key] = item

    def remove(self, key: str, item: Any) -> None:
        self.items.pop(key, None)


def event(kind: str, key: str, version: str) -> Event:
    return Event(kind, key, {"version": version}, version)


@pytest.fixture
def follow() -> Iterator[Callable[[Server], tuple[Reflector, Copy]]]:
    started: list[Reflector] = []

    def start(server: Server) -> tuple[Reflector, Copy]:
        copy = Copy()
        reflector = Reflector("things", server, copy, backoff=Backoff(initial=0.005, max=0.02))
        reflector.start()
        started.append(reflector)
        return reflector, copy

    yield start
    for reflector in started:
        reflector.stop()
        reflector.join(60)
        assert not reflector._thread.is_alive()


Follow = Callable[[Server], tuple[Reflector, Copy]]
ONE = Listing({"a": {"version": "1"}}, "10")


def test_lists_once_and_then_follows_events(follow: Follow) -> None:
    server = Server([ONE], [[event("ADDED", "b", "11"), event("MODIFIED", "a", "12"), event("DELETED", "b", "13")]])
    reflector, copy = follow(server)
    assert reflector.wait_synced(60)
    until(lambda: copy.items == {"a": {"version": "12"}})
    assert (server.listed, server.asked) == (1, ["10"])


def test_a_watch_that_ends_is_taken_up_where_it_stood_without_a_list(follow: Follow) -> None:
    server = Server([ONE], [[event("ADDED", "b", "11"), event("BOOKMARK", "", "20"), None], []])
    follow(server)
    until(lambda: len(server.asked) == 2)
    assert (server.asked, server.listed) == (["10", "20"], 1)


def test_a_version_that_expired_lists_again_and_drops_what_is_gone(follow: Follow) -> None:
    server = Server([ONE, Listing({"b": {"version": "30"}}, "30")], [[Expired("too old")], []])
    _, copy = follow(server)
    until(lambda: copy.items == {"b": {"version": "30"}})
    until(lambda: server.asked == ["10", "30"])


def test_a_requested_list_replaces_what_the_watch_said(follow: Follow) -> None:
    corrected = Listing({"a": {"version": "11", "new": "1"}}, "11")
    server = Server([ONE, corrected], [[event("MODIFIED", "a", "11")], []])
    reflector, copy = follow(server)
    until(lambda: copy.items == {"a": {"version": "11"}})
    reflector.relist(0.001)
    until(lambda: copy.items == corrected.items)
    until(lambda: server.asked == ["10", "11"])


def test_a_requested_list_waits_for_no_backoff() -> None:
    server = Server([ClusterUnavailable("cannot be converted", retry_after=60.0), ONE], [[]])
    copy = Copy()
    reflector = Reflector("things", server, copy)
    reflector.start()
    until(lambda: server.listed == 1)
    reflector.relist(0.0)
    until(lambda: copy.items == ONE.items)
    reflector.stop()
    reflector.join(60)


def test_nothing_is_synced_before_the_first_complete_list(follow: Follow) -> None:
    server = Server([ClusterUnavailable("away"), Expired("page 2 expired"), ONE], [[]])
    reflector, copy = follow(server)
    until(lambda: reflector.is_synced)
    assert server.listed == 3
    until(lambda: reflector.error is None)
    assert copy.items == ONE.items


@pytest.mark.parametrize("timeout", [60.0, 0.01])
def test_only_a_first_list_that_came_too_late_is_a_change_of_state(timeout: float) -> None:
    """Or the first list of each kind would have all Applications reconciled."""
    gate, states = threading.Event(), list[bool]()

    class Slow(Server):
        def list(self) -> Listing:
            gate.wait(60)
            return super().list()

    slow = Slow([ONE], [[]])
    reflector = Reflector("things", slow, Copy(), on_state=lambda: states.append(reflector.is_synced))
    reflector.start()
    is_late = timeout < 1
    if not is_late:
        gate.set()
    assert reflector.wait_synced(timeout) is not is_late
    gate.set()
    until(lambda: slow.asked == ["10"])
    assert states == [True] * is_late
    reflector.stop()
    reflector.join(60)


def test_a_stop_while_a_requested_list_begins_is_not_lost() -> None:
    server = Server([ONE, ClusterUnavailable("away")], [[]])
    reflector = Reflector("things", server, Copy(), backoff=Backoff(initial=600.0, max=600.0))
    stopping = threading.Thread(target=reflector.stop)

    class StoppedMeanwhile(threading.Event):
        def clear(self) -> None:
            stopping.start()
            stopping.join(0.1)  # as far as it comes
            super().clear()

    reflector._wake = StoppedMeanwhile()
    reflector.start()
    assert reflector.wait_synced(60)
    reflector.relist(0.0)
    reflector.join(60)
    stopping.join(60)
    assert not reflector._thread.is_alive()


def test_a_watch_that_cannot_be_taken_up_again_leaves_the_copy_in_doubt(follow: Follow) -> None:
    away = ClusterUnavailable("away", retry_after=0.05)
    server = Server([ONE], [[away], [away], []])
    reflector, copy = follow(server)
    until(lambda: reflector.error is not None)
    assert copy.items == ONE.items
    until(lambda: reflector.error is None)
    assert server.listed == 1


def test_waiting_for_a_list_ends_once_its_group_is_unavailable(follow: Follow) -> None:
    server = Server([GroupUnavailable("down")], [[]])
    reflector, _ = follow(server)
    began = time.monotonic()
    assert reflector.wait_synced(600) is False
    assert time.monotonic() - began < 60
    assert isinstance(reflector.error, GroupUnavailable)


def test_an_outage_that_leaves_only_a_group_unavailable_is_a_change_of_state() -> None:
    states = list[object]()
    server = Server([ClusterUnavailable("away"), ClusterUnavailable("away"), GroupUnavailable("down"), ONE], [[]])
    backoff = Backoff(initial=0.005, max=0.02)
    reflector = Reflector(
        "things", server, Copy(), backoff=backoff, on_state=lambda: states.append(type(reflector.error))
    )
    reflector.start()
    until(lambda: server.asked == ["10"])
    assert states == [ClusterUnavailable, GroupUnavailable, type(None)]
    reflector.stop()
    reflector.join(60)


def test_a_watch_that_breaks_once_leaves_no_doubt(follow: Follow) -> None:
    server = Server([ONE], [[ClusterUnavailable("cut")], [event("ADDED", "b", "11")]])
    states: list[object] = []
    reflector, copy = follow(server)
    reflector._on_state = lambda: states.append(reflector.error)
    until(lambda: "b" in copy.items)
    assert [state for state in states if state is not None] == []


def test_watches_that_end_at_once_are_not_asked_for_in_a_hot_loop(follow: Follow) -> None:
    server = Server([ONE], [[None]])
    follow(server)
    began = time.monotonic()
    until(lambda: len(server.asked) >= 20)
    assert len(server.asked) < 30 + 100 * (time.monotonic() - began)


def test_stopping_ends_an_idle_watch(follow: Follow) -> None:
    reflector, _ = follow(Server([ONE], [[]]))
    assert reflector.wait_synced(60)
    reflector.stop()
    reflector.join(60)
    assert not reflector._thread.is_alive()
