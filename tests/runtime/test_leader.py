"""An election with clocks set by hand: one leader at a time, and a paused one stops writing."""

from __future__ import annotations

from gitsync.errors import ClusterUnavailable, Conflict
from gitsync.runtime.leader import Leader, Lease


class Store:
    """A lease in memory with compare and set."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.is_down = False
        self._renewals = 0

    def read(self) -> Lease | None:
        if self.is_down:
            raise ClusterUnavailable("down")
        return self.lease

    def take(self, seen: Lease | None, holder: str, seconds: float) -> Lease:
        if self.is_down:
            raise ClusterUnavailable("down")
        if seen != self.lease:
            raise Conflict("changed")
        self._renewals += 1
        self.lease = Lease(holder, str(self._renewals))
        return self.lease

    def release(self, seen: Lease) -> None:
        self.take(seen, "", 1)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def candidate(store: Store, name: str, time: Time) -> Leader:
    return Leader(store, name, duration=15, renew_deadline=10, monotonic=time)


def test_the_first_to_come_leads_and_the_second_waits() -> None:
    store, time = Store(), Time()
    first, second = candidate(store, "first", time), candidate(store, "second", time)
    first.step()
    second.step()
    assert (first.is_leading, second.is_leading) == (True, False)


def test_a_leader_that_renews_keeps_leading() -> None:
    store, time = Store(), Time()
    first, second = candidate(store, "first", time), candidate(store, "second", time)
    for _ in range(20):
        first.step()
        second.step()
        time.now += 2
        assert (first.is_leading, second.is_leading) == (True, False)


def test_a_leader_that_cannot_renew_stops_before_another_takes_over() -> None:
    store, time = Store(), Time()
    first, second = candidate(store, "first", time), candidate(store, "second", time)
    first.step()
    second.step()
    time.now = 10
    assert not first.is_leading
    second.step()
    assert not second.is_leading
    time.now = 15
    second.step()
    assert (first.is_leading, second.is_leading) == (False, True)


def test_a_paused_leader_that_comes_back_finds_the_lease_taken() -> None:
    store, time = Store(), Time()
    first, second = candidate(store, "first", time), candidate(store, "second", time)
    first.step()
    second.step()
    time.now = 16
    second.step()
    first.step()
    assert (first.is_leading, second.is_leading) == (False, True)


def test_an_unreachable_store_makes_nobody_leader_for_longer_than_the_deadline() -> None:
    store, time = Store(), Time()
    first = candidate(store, "first", time)
    first.step()
    store.is_down = True
    time.now = 9
    first.step()
    assert first.is_leading
    time.now = 11
    first.step()
    assert not first.is_leading


def test_stopping_releases_the_lease_so_that_another_need_not_wait() -> None:
    store, time = Store(), Time()
    turns: list[bool] = []
    first, second = candidate(store, "first", time), candidate(store, "second", time)
    first.on_change = turns.append
    first.step()
    first.stop()
    second.step()
    assert second.is_leading
    assert turns == [True, False]
