"""Replicas divide keys, with clocks and leases in the hand of the test: never do two hold one key."""

from __future__ import annotations

import random

import pytest

from gitsync.errors import ClusterUnavailable, Conflict
from gitsync.runtime.membership import GroupLeases, MemberLease, MemberSet, Membership, holder_in, owner
from tests.waiting import until

KEYS = [f"gitsync/app-{number}" for number in range(60)]


class Store:
    """Leases in memory with compare and set; ``answers_are_lost`` lets writes happen and fail."""

    def __init__(self) -> None:
        self.leases: dict[str, MemberLease] = {}
        self.is_down = False
        self.answers_are_lost = False
        self._renewals = 0

    def all(self) -> tuple[MemberLease, ...]:
        self._check()
        return tuple(self.leases.values())

    def put(self, seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        self._check()
        if self.leases.get(holder) != seen:
            raise Conflict("changed")
        self._renewals += 1
        self.leases[holder] = MemberLease(holder, str(self._renewals), view)
        if self.answers_are_lost:
            raise ClusterUnavailable("lost")
        return self.leases[holder]

    def remove(self, seen: MemberLease) -> None:
        self._check()
        if self.leases.get(seen.holder) == seen:
            del self.leases[seen.holder]

    def _check(self) -> None:
        if self.is_down:
            raise ClusterUnavailable("down")


class World:
    """A store, one clock for all, and members that never start a thread."""

    def __init__(self) -> None:
        self.store = Store()
        self.now = 0.0
        self.members: dict[str, Membership] = {}

    def join(self, name: str) -> Membership:
        made = Membership(self.store, name, duration=15, monotonic=lambda: self.now)
        self.members[name] = made
        return made

    def settle(self, *names: str) -> None:
        """Let these members, or all, take part until nothing moves."""
        for _ in range(6):
            for name in names or tuple(self.members):
                self.members[name].step()

    def held(self) -> dict[str, list[str]]:
        return {key: [name for name, member in self.members.items() if member.owns(key)] for key in KEYS}

    def shares(self) -> dict[str, int]:
        return {name: sum(member.owns(key) for key in KEYS) for name, member in self.members.items()}


@pytest.fixture
def world() -> World:
    return World()


def test_the_only_member_holds_everything(world: World) -> None:
    world.join("a")
    world.settle()
    assert world.shares() == {"a": len(KEYS)}


def test_members_divide_the_keys_and_each_has_some(world: World) -> None:
    for name in "abc":
        world.join(name)
    world.settle()
    assert all(len(holders) == 1 for holders in world.held().values())
    assert min(world.shares().values()) >= 10


def test_only_the_keys_of_the_one_that_comes_move() -> None:
    before = {key: owner(("a", "b"), key) for key in KEYS}
    after = {key: owner(("a", "b", "c"), key) for key in KEYS}
    assert {after[key] for key in KEYS if after[key] != before[key]} == {"c"}
    assert owner((), "key") == ""


def test_work_under_way_is_ended_before_its_key_is_given_up(world: World) -> None:
    first = world.join("a")
    world.settle()
    second = Membership(world.store, "b", duration=15, monotonic=lambda: world.now)
    moving = next(key for key in KEYS if owner(("a", "b"), key) == "b")
    world.members["b"] = second
    with first.claim(moving) as is_ours:
        assert is_ours
        world.settle()
        assert not second.owns(moving)
        assert not first.owns(moving), "nothing new is begun on it"
        staying = next(key for key in KEYS if owner(("a", "b"), key) == "a")
        assert first.owns(staying)
    world.settle()
    assert second.owns(moving)


def test_a_member_that_leaves_is_followed_at_once(world: World) -> None:
    world.join("a")
    world.join("b")
    world.settle()
    world.members.pop("a").stop()
    world.settle()
    assert world.shares() == {"b": len(KEYS)}


def test_a_silent_member_stops_before_its_keys_go_on_and_its_lease_is_removed(world: World) -> None:
    silent = world.join("a")
    world.join("b")
    world.settle()
    held = [key for key in KEYS if silent.owns(key)]
    for _ in range(14):
        world.now += 1
        world.settle("b")
        assert silent.may_write == (world.now < 10)
        assert not any(world.members["b"].owns(key) for key in held)
    world.now += 1.5
    world.settle("b")
    assert all(world.members["b"].owns(key) for key in held)
    assert set(world.store.leases) == {"b"}


def test_a_paused_member_that_wakes_holds_nothing_before_its_old_work_has_ended(world: World) -> None:
    paused = world.join("a")
    world.join("b")
    world.settle()
    key = next(key for key in KEYS if paused.owns(key))
    with paused.claim(key):
        for _ in range(20):
            world.now += 1
            world.settle("b")
        world.settle()
        assert not paused.may_write
        assert world.members["b"].owns(key)
    world.settle()
    assert world.held()[key] == ["a"], "it joined again"


def test_no_answer_from_the_store_ends_the_right_to_write_at_the_deadline(world: World) -> None:
    member = world.join("a")
    assert member.problem == "our Lease is not renewed yet"
    world.settle()
    world.store.is_down = True
    world.now = 9
    world.settle()
    assert member.may_write
    world.now = 10
    world.settle()
    assert not member.may_write
    assert member.problem == "cannot renew our Lease: down"
    assert not any(member.owns(key) for key in KEYS)
    world.store.is_down = False
    world.settle()
    assert member.problem == ""
    assert world.shares() == {"a": len(KEYS)}


def test_a_renewal_whose_answer_was_lost_is_found_again(world: World) -> None:
    world.join("a")
    world.store.answers_are_lost = True
    world.settle()
    world.store.answers_are_lost = False
    world.settle()
    assert world.shares() == {"a": len(KEYS)}


def test_a_lease_that_somebody_removes_ends_the_right_to_write_until_the_work_has_ended(world: World) -> None:
    member = world.join("a")
    world.settle()
    with member.claim(KEYS[0]):
        world.store.leases.clear()
        world.settle()
        assert not member.may_write
    world.settle()
    assert world.shares() == {"a": len(KEYS)}


def test_why_nothing_is_renewed_is_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.join("a")
    world.store.is_down = True
    with caplog.at_level("INFO"):
        world.settle()
        world.store.is_down = False
        world.settle()
    assert [record.getMessage() for record in caplog.records] == [
        "cannot renew our Lease: down",
        "our Lease is renewed again",
    ]


def test_changes_of_the_share_are_reported(world: World) -> None:
    reported: list[int] = []
    member = world.join("a")
    member.on_change = lambda: reported.append(world.shares()["a"])
    world.settle()
    assert reported[-1] == len(KEYS)
    count = len(reported)
    world.settle()
    assert len(reported) == count


def test_keys_that_were_refused_while_a_renewal_took_long_are_reported(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is renewed in time by its own count, so that nothing else tells that a key was refused."""
    member = world.join("a")
    world.settle()
    reported: list[bool] = []
    member.on_change = lambda: reported.append(member.owns("k"))
    read, refused = world.store.all, []

    def slow() -> tuple[MemberLease, ...]:
        world.now += 2
        with member.claim("k") as is_ours:
            refused.append(not is_ours)
        return read()

    world.now += 9  # of the 10 seconds after which nothing may be written
    monkeypatch.setattr(world.store, "all", slow)
    member.step()
    assert (refused, reported) == ([True], [True])
    monkeypatch.setattr(world.store, "all", read)
    member.step()
    assert reported == [True]


def test_a_defect_in_one_step_does_not_end_the_later_ones(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = iter([KeyError("a variable")])
    read = world.store.all

    def fails_once() -> tuple[MemberLease, ...]:
        raise next(failures)

    def all_leases() -> tuple[MemberLease, ...]:
        try:
            return fails_once()
        except StopIteration:
            return read()

    monkeypatch.setattr(world.store, "all", all_leases)
    member = Membership(world.store, "a", duration=1.0)
    member.start()
    until(lambda: member.owns("k"))
    member.stop()
    assert [record.getMessage() for record in caplog.records] == ["taking part failed, and is tried again"]


@pytest.mark.parametrize("seed", range(60))
def test_in_no_order_of_steps_pauses_and_failures_do_two_hold_one_key(world: World, seed: int) -> None:
    chance = random.Random(seed)
    names = [f"m{number}" for number in range(3)]
    work: list[tuple[str, str]] = []  # work under way by whom, entered and not left
    entered = {}
    for name in names:
        world.join(name)
    for _ in range(250):
        name = chance.choice(names)
        action = chance.random()
        member = world.members[name]
        if action < 0.55:
            member.step()
        elif action < 0.65:
            world.now += chance.choice([0.5, 2.0, 4.0])
        elif action < 0.68:
            world.now += 8.0
        elif action < 0.72:
            world.store.is_down = not world.store.is_down
        elif action < 0.76:
            world.store.answers_are_lost = not world.store.answers_are_lost
        elif action < 0.88:
            key = chance.choice(KEYS[:8])
            turn = member.claim(key)
            if turn.__enter__():
                entered[name, key] = turn
                work.append((name, key))
            else:
                turn.__exit__(None, None, None)
        elif work:
            done = work.pop(chance.randrange(len(work)))
            if done not in work:
                entered.pop(done).__exit__(None, None, None)
        if action >= 0.97:
            world.members[name] = Membership(
                world.store, f"{name}-again", duration=15, monotonic=lambda: world.now
            )  # crashed: its lease stays
            work = [item for item in work if item[0] != name]
            entered = {item: turn for item, turn in entered.items() if item[0] != name}
        for key in KEYS[:8]:
            writers = {who for who, busy in work if busy == key and world.members[who].may_write}
            holders = {who for who, one in world.members.items() if one.owns(key)}
            assert len(writers | holders) <= 1, (key, writers, holders)
    world.store.is_down = world.store.answers_are_lost = False
    for turn in entered.values():
        turn.__exit__(None, None, None)
    world.now += 30
    world.settle()
    world.now += 16
    world.settle()
    assert all(len(holders) == 1 for holders in world.held().values())


class Leases:
    """Leases in memory."""

    def __init__(self) -> None:
        self.held: dict[str, MemberLease] = {}

    def all(self) -> tuple[MemberLease, ...]:
        return tuple(self.held.values())

    def put(self, seen: MemberLease | None, holder: str, view: MemberSet, seconds: float) -> MemberLease:
        self.held[holder] = MemberLease(holder, str(int(seen.renewal) + 1 if seen else 1), view)
        return self.held[holder]

    def remove(self, seen: MemberLease) -> None:
        del self.held[seen.holder]


def joined(leases: Leases, group: str, process: str) -> Membership:
    return Membership(GroupLeases(leases, group, is_inside=True), holder_in(group, process))


def test_a_group_divides_all_keys_whatever_other_leases_exist() -> None:
    leases = Leases()
    leases.put(None, "host_a", (), 15)  # the exclusive lease of the group
    leases.put(None, holder_in("host_b", "1"), (holder_in("host_b", "1"),), 15)
    members = [joined(leases, "host_a", process) for process in ("1", "2")]
    for _ in range(4):
        for member in members:
            member.step()
    shares = [sum(member.owns(key) for key in KEYS) for member in members]
    assert sum(shares) == len(KEYS)
    assert min(shares) > 0


def test_the_leases_of_a_group_and_all_others_are_complementary() -> None:
    leases = Leases()
    for holder in ("host_a", "host_ab", holder_in("host_a", "1"), holder_in("host_ab", "1")):
        leases.put(None, holder, (), 15)
    inside, outside = (
        {lease.holder for lease in GroupLeases(leases, "host_a", is_inside=is_inside).all()}
        for is_inside in (True, False)
    )
    assert inside == {holder_in("host_a", "1")}
    assert inside | outside == set(leases.held)
    assert not inside & outside
