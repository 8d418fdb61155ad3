"""The promises of the work queue."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from gitsync.runtime.workqueue import Backoff, FairShare, WorkQueue


class Watch:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def queue(watch: Watch) -> WorkQueue[str]:
    return WorkQueue(Backoff(initial=1, factor=2, max=10, jitter=0), monotonic=watch, random=lambda: 0.0)


def test_a_key_added_twice_comes_out_once() -> None:
    keys = queue(Watch())
    keys.add("a")
    keys.add("a")
    assert keys.get(0) == "a"
    assert keys.get(0) is None


def test_keys_come_out_in_the_order_they_were_added() -> None:
    keys = queue(Watch())
    for key in ("c", "a", "b", "a"):
        keys.add(key)
    assert [keys.get(0) for _ in range(3)] == ["c", "a", "b"]


def test_urgent_keys_come_out_first_but_do_not_starve_the_others() -> None:
    keys = queue(Watch())
    for key in ("a", "b"):
        keys.add(key)
    for number in range(6):
        keys.add(f"u{number}", urgent=True)
    assert [keys.get(0) for _ in range(8)] == ["u0", "u1", "u2", "u3", "a", "u4", "u5", "b"]
    assert keys.get(0) is None


def by_namespace(workers: int) -> WorkQueue[str]:
    return WorkQueue(fair_share=FairShare(lambda key: key.partition("/")[0], workers))


def test_groups_take_turns_and_the_keys_of_each_keep_their_order() -> None:
    keys = by_namespace(9)
    for number in range(4):
        keys.add(f"many/{number}")
    for key in ("few/1", "other/1", "few/2"):
        keys.add(key)
    order = ["many/0", "few/1", "other/1", "many/1", "few/2", "many/2", "many/3"]
    assert [keys.get(0) for _ in order] == order


def test_the_urgent_keys_of_a_group_do_not_come_before_those_of_another() -> None:
    keys = by_namespace(9)
    for number in range(3):
        keys.add(f"many/{number}", urgent=True)
    keys.add("few/1", urgent=True)
    assert [keys.get(0) for _ in range(4)] == ["many/0", "few/1", "many/1", "many/2"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 3))
def test_a_key_waits_for_no_more_than_one_of_each_other_group_at_a_time(groups: list[int], limit: int) -> None:
    keys = by_namespace(limit)
    for number, group in enumerate(groups):
        keys.add(f"{group}/{number}")
    order = []
    while (key := keys.get(0)) is not None:
        order.append(int(key.partition("/")[0]))
        keys.done(key)
    assert sorted(order) == sorted(groups)
    for position, group in enumerate(order):
        # between two keys of a group, or before its first one, each other group had at most one turn
        former = max((earlier for earlier in range(position) if order[earlier] == group), default=-1)
        between = order[former + 1 : position]
        assert len(between) == len(set(between))


def test_a_worker_that_waits_gets_a_key_of_a_group_whose_share_is_free_again() -> None:
    keys = by_namespace(1)
    keys.add("a/1")
    keys.add("a/2")
    assert keys.get(0) == "a/1"
    received: list[str | None] = []
    worker = threading.Thread(target=lambda: received.append(keys.get(60)))
    worker.start()
    keys.done("a/1")
    worker.join(60)
    assert received == ["a/2"]


def test_a_group_gets_its_share_of_workers_and_no_more() -> None:
    keys = by_namespace(2)
    for key in ("a/1", "a/2", "a/3", "a/4", "b/1"):
        keys.add(key)
    assert [keys.get(0) for _ in range(4)] == ["a/1", "b/1", "a/2", None]
    keys.add("a/5")
    keys.done("a/2")
    assert [keys.get(0) for _ in range(2)] == ["a/3", None]
    keys.done("a/1")
    keys.done("a/3")
    assert [keys.get(0) for _ in range(3)] == ["a/4", "a/5", None]
    assert len(keys) == 0


def test_a_held_key_that_becomes_urgent_comes_out_once() -> None:
    keys = by_namespace(1)
    for key in ("a/1", "a/2"):
        keys.add(key)
    assert [keys.get(0) for _ in range(2)] == ["a/1", None]
    keys.add("a/2", urgent=True)
    assert keys.get(0) is None
    keys.add("a/1")
    keys.done("a/1")
    assert keys.get(0) == "a/2"
    keys.done("a/2")
    assert keys.get(0) == "a/1"
    keys.done("a/1")
    assert keys.get(0) is None


def test_a_waiting_key_that_becomes_urgent_comes_out_once() -> None:
    keys = queue(Watch())
    for key in ("a", "b", "c"):
        keys.add(key)
    keys.add("c", urgent=True)
    assert len(keys) == 3
    assert [keys.get(0) for _ in range(4)] == ["c", "a", "b", None]


def test_a_key_that_is_urgent_while_it_is_worked_on_comes_out_first() -> None:
    keys = queue(Watch())
    keys.add("a")
    assert keys.get(0) == "a"
    keys.add("b")
    keys.add("a", urgent=True)
    keys.done("a")
    assert [keys.get(0), keys.get(0)] == ["a", "b"]


def test_a_key_added_while_it_is_worked_on_waits_for_the_work_to_end() -> None:
    keys = queue(Watch())
    keys.add("a")
    assert keys.get(0) == "a"
    keys.add("a")
    assert keys.get(0) is None
    keys.done("a")
    assert keys.get(0) == "a"


def test_a_delayed_key_comes_out_when_it_is_due() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_after("a", 5)
    assert keys.get(0) is None
    watch.time += 5
    assert keys.get(0) == "a"


def test_of_several_delays_the_shortest_counts_once() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_after("a", 5)
    keys.add_after("a", 2)
    keys.add_after("a", 9)
    watch.time += 2
    assert keys.get(0) == "a"
    keys.done("a")
    watch.time += 100
    assert keys.get(0) is None


def test_handing_out_a_key_forgets_its_delay() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_after("a", 5)
    keys.add("a")
    assert keys.get(0) == "a"
    keys.done("a")
    watch.time += 10
    assert keys.get(0) is None


def test_failures_are_counted_per_key_until_forgotten() -> None:
    keys = queue(Watch())
    assert [keys.retry("a") for _ in range(5)] == [1, 2, 4, 8, 10]
    assert keys.retry("b") == 1
    keys.forget("a")
    assert keys.retry("a") == 1
    assert keys.failures("a") == 1
    assert [keys.retry("c", 3.0) for _ in range(4)] == [1, 2, 3, 3]


def test_closing_releases_waiting_workers() -> None:
    keys: WorkQueue[str] = WorkQueue()
    got: list[str | None] = []
    worker = threading.Thread(target=lambda: got.append(keys.get()))
    worker.start()
    keys.close()
    worker.join(60)
    assert got == [None]


def test_a_waiting_worker_wakes_for_a_key_that_becomes_due() -> None:
    keys: WorkQueue[str] = WorkQueue()
    keys.add_after("late", 0.05)
    assert keys.get(60) == "late"


def test_no_two_workers_ever_hold_one_key() -> None:
    keys: WorkQueue[int] = WorkQueue()
    held: set[int] = set()
    clashes: list[int] = []
    guard = threading.Lock()

    def work() -> None:
        while (key := keys.get()) is not None:
            with guard:
                if key in held:
                    clashes.append(key)
                held.add(key)
            with guard:
                held.discard(key)
            keys.done(key)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for number in range(2000):
        keys.add(number % 7)
    while len(keys):
        pass
    keys.close()
    for worker in workers:
        worker.join(60)
    assert clashes == []


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "done"]), st.integers(0, 3)), max_size=60))
def test_what_is_added_always_comes_out_after_its_work_ends(steps: list[tuple[str, int]]) -> None:
    keys: WorkQueue[int] = WorkQueue()
    working: set[int] = set()
    owed: set[int] = set()
    for step, key in steps:
        if step == "add":
            keys.add(key)
            owed.add(key)
        elif step == "get":
            got = keys.get(0)
            if got is not None:
                assert got not in working
                working.add(got)
                owed.discard(got)
        elif key in working:
            working.discard(key)
            keys.done(key)
    for key in list(working):
        keys.done(key)
    left = set()
    while (got := keys.get(0)) is not None:
        left.add(got)
    assert left == owed


def test_a_key_added_for_a_part_is_handed_out_for_it_and_keeps_its_delay() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_after("a", 5)
    keys.add_part_after("a", 1)
    watch.time += 1
    assert (keys.get(0), keys.is_partial("a")) == ("a", True)
    keys.done("a")
    assert keys.get(0) is None
    watch.time += 4
    assert (keys.get(0), keys.is_partial("a")) == ("a", False)


def test_a_key_added_for_all_of_its_work_is_never_handed_out_for_a_part() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_part_after("a", 0)
    keys.add("a")
    keys.add_part_after("a", 1)
    assert (keys.get(0), keys.is_partial("a")) == ("a", False)
    keys.add("a")
    keys.add_part_after("a", 1)
    keys.done("a")
    watch.time += 1
    assert (keys.get(0), keys.is_partial("a")) == ("a", False)
    keys.done("a")
    assert keys.get(0) is None


def test_all_of_the_work_that_is_due_while_a_part_waits_includes_the_part() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add("other")
    keys.add_after("a", 2)
    keys.add_part_after("a", 1)
    watch.time += 3
    assert keys.get(0) == "other"
    assert (keys.get(0), keys.is_partial("a")) == ("a", False)
    keys.done("a")
    assert keys.get(0) is None


def test_a_part_that_is_added_during_work_on_a_part_comes_out_again() -> None:
    watch = Watch()
    keys = queue(watch)
    keys.add_part_after("a", 0)
    assert keys.get(0) == "a"
    keys.add_part_after("a", 0)
    assert keys.get(0) is None
    keys.done("a")
    assert (keys.get(0), keys.is_partial("a")) == ("a", True)


def test_the_wait_of_a_key_is_reported_from_the_moment_at_which_it_is_ready() -> None:
    watch, waits = Watch(), list[float]()
    keys: WorkQueue[str] = WorkQueue(monotonic=watch, on_hand_out=waits.append)
    keys.add("a")
    keys.add_after("b", 5)
    watch.time += 2
    keys.add("a", urgent=True)
    assert keys.get() == "a"
    watch.time += 3
    assert keys.get() == "b", "it became ready now"
    keys.add("a")
    watch.time += 4
    keys.done("a")
    watch.time += 1
    assert keys.get() == "a"
    assert waits == [2, 0, 1]


def test_delays_double_up_to_the_maximum() -> None:
    backoff = Backoff(initial=0.5, factor=2, max=3, jitter=0)
    assert [backoff.delay(failures, 0.9) for failures in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 3, 3]


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_delay_is_never_negative_nor_above_the_maximum(failures: int, random: float) -> None:
    assert 0 < Backoff().delay(failures, random) <= Backoff().max
