"""A pool runs a limited number of tasks, and slow ones do not count."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from collections.abc import Iterator

import pytest

from gitsync.runtime.elastic_pool import ElasticPool
from gitsync.runtime.work_costs import RequestCount, counted_for
from tests.waiting import until


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """An event that tasks wait for; it is set in the end."""
    made = threading.Event()
    yield made
    made.set()


def test_results_are_in_the_order_of_the_calls() -> None:
    pool = ElasticPool(3)
    assert list(pool.map(lambda number: number * 2, range(100))) == [number * 2 for number in range(100)]
    pool.shutdown()


def test_no_more_than_its_size_run_at_a_time(gate: threading.Event) -> None:
    pool, running = ElasticPool(2, patience=60), list[int]()

    def task(number: int) -> None:
        running.append(number)
        gate.wait()

    futures = [pool.submit(task, number) for number in range(5)]
    until(lambda: len(running) == 2)
    assert sorted(running) == [0, 1]
    gate.set()
    for future in futures:
        future.result(60)
    pool.shutdown()


def test_slow_tasks_do_not_hold_up_others(gate: threading.Event) -> None:
    pool = ElasticPool(2, patience=0.05)
    slow = [pool.submit(gate.wait) for _ in range(10)]
    assert pool.submit(lambda: "done").result(60) == "done"
    assert not any(future.done() for future in slow)
    gate.set()
    assert all(future.result(60) for future in slow)
    pool.shutdown()


def test_threads_are_limited(gate: threading.Event) -> None:
    pool = ElasticPool(1, patience=0.01, most=3)
    tasks = [pool.submit(gate.wait) for _ in range(6)]
    until(lambda: sum(future.running() for future in tasks) == 3)
    gate.set()
    assert all(future.result(60) for future in tasks)
    pool.shutdown()


def test_a_failure_is_raised_where_the_result_is_read() -> None:
    pool = ElasticPool(1)
    with pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result(60)
    assert pool.submit(lambda: 1).result(60) == 1
    pool.shutdown()


def test_a_pool_that_is_shut_down_cancels_what_waits_and_takes_nothing(gate: threading.Event) -> None:
    pool = ElasticPool(1, patience=60)
    first, second = pool.submit(gate.wait), pool.submit(gate.wait)
    until(first.running)
    pool.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(gate.wait)
    gate.set()
    assert first.result(60)


def test_an_idle_thread_keeps_neither_the_call_nor_its_result() -> None:
    class Large:
        pass

    pool, given = ElasticPool(2), Large()
    future = pool.submit(lambda argument: Large(), given)
    left = [weakref.ref(given), weakref.ref(future.result())]
    del given, future
    until(lambda: [one() for one in left] == [None, None])
    pool.shutdown()


def test_thousands_of_tasks_of_one_tenant_do_not_delay_another(gate: threading.Event) -> None:
    pool = ElasticPool(1, patience=60)
    done = list[str]()
    futures = [pool.submit(gate.wait)]
    until(futures[0].running)
    for tenant, count in (("hostile", 1000), ("shop", 2), ("bank", 1)):
        with counted_for(RequestCount(), tenant):
            futures += [pool.submit(done.append, f"{tenant} {number}") for number in range(count)]
    gate.set()
    for future in futures:
        future.result(60)
    assert done[:6] == ["hostile 0", "shop 0", "bank 0", "hostile 1", "shop 1", "hostile 2"]
    assert len(done) == 1003
    pool.shutdown()


def test_a_task_wakes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    with ElasticPool(4) as pool:
        together = threading.Barrier(4)
        for future in [pool.submit(together.wait) for _ in range(4)]:
            future.result()
        woken = Counter[str]()
        notify = pool._changed.notify

        def count(threads: int = 1) -> None:
            woken["threads"] += threads
            notify(threads)

        monkeypatch.setattr(pool._changed, "notify", count)
        for future in [pool.submit(time.monotonic) for _ in range(20)]:
            future.result()
        assert woken["threads"] <= 21
