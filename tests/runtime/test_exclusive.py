"""Two controllers without replicas never sync one cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.runtime.exclusive import ExclusiveLease, identity_in
from gitsync.runtime.membership import MemberLease, MemberSet


class Leases:
    """Leases in memory; ``renewed`` are those that another process renews whenever they are read."""

    def __init__(self, *holders: str, renewed: tuple[str, ...] = ()) -> None:
        self.held = {holder: MemberLease(holder, "1", ()) for holder in holders}
        self.renewed = renewed
        self.is_down = False

    def all(self) -> tuple[MemberLease, ...]:
        if self.is_down:
            raise ClusterUnavailable("down")
        for holder in self.renewed:
            self.put(self.held[holder], holder, (), 15)
        return tuple(self.held.values())

    def put(self, seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        if self.is_down:
            raise ClusterUnavailable("down")
        self.held[holder] = MemberLease(holder, str(int(seen.renewal) + 1 if seen else 1), view)
        return self.held[holder]

    def remove(self, seen: MemberLease) -> None:
        self.held.pop(seen.holder, None)


def started(leases: Leases, identity: str = "b") -> tuple[ExclusiveLease, list[float]]:
    waits: list[float] = []
    lease = ExclusiveLease(leases, identity, sleep=waits.append)
    lease.start()
    return lease, waits


def test_the_only_controller_starts_at_once_and_leaves_nothing() -> None:
    leases = Leases()
    lease, waits = started(leases)
    assert (sorted(leases.held), waits) == (["b"], [])
    lease.stop()
    assert leases.held == {}


def test_a_controller_that_runs_stops_the_second_one_which_names_it() -> None:
    leases = Leases("host_a", renewed=("host_a",))
    with pytest.raises(InvalidInput, match="another controller, host_a, syncs this cluster; stop it first"):
        started(leases)
    assert sorted(leases.held) == ["host_a"]


def test_the_lease_of_a_controller_that_was_killed_runs_out() -> None:
    leases = Leases("host_a")
    lease, waits = started(leases)
    assert sum(waits) == pytest.approx(15)
    assert sorted(leases.held) == ["b"]
    lease.stop()


def test_a_lease_that_is_not_renewed_is_a_problem_after_its_duration() -> None:
    now = [100.0]
    leases = Leases()
    lease = ExclusiveLease(leases, "b", sleep=lambda seconds: None, monotonic=lambda: now[0])
    assert lease.problem == ""
    lease.start()
    leases.is_down = True
    lease.attempt()
    now[0] += 14
    assert lease.problem == ""
    now[0] += 2
    assert "no Lease protects this cluster from a second controller: down" in lease.problem
    leases.is_down = False
    lease.attempt()
    assert lease.problem == ""
    lease.stop()


def test_a_controller_without_leases_has_no_problem() -> None:
    leases = Leases()
    leases.is_down = True
    lease, _ = started(leases)
    assert lease.problem == ""
    lease.stop()


def test_a_restart_takes_its_own_lease_again_without_a_wait() -> None:
    leases = Leases("b")
    lease, waits = started(leases)
    assert waits == []
    lease.stop()


def test_of_two_that_start_at_once_one_at_least_stops() -> None:
    leases = Leases()
    put = leases.put

    def both(seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        put(None, "a", (), 15)
        return put(seen, holder, view, seconds)

    leases.put = both  # type: ignore[method-assign]
    with pytest.raises(InvalidInput, match="another controller, a,"):
        started(leases)
    assert sorted(leases.held) == ["a"]


def test_without_leases_the_controller_runs_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    leases = Leases()
    leases.is_down = True
    lease, _ = started(leases)
    lease.stop()
    assert "no Lease protects this cluster from a second controller: down" in caplog.text


def test_a_controller_has_its_name_from_its_data_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert identity_in(tmp_path, "host") == identity_in(tmp_path, "host") != identity_in(tmp_path / "other", "host")
