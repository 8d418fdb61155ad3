"""What a piece of work costs: requests and stages."""

from __future__ import annotations

from concurrent.futures import wait

from gitsync.runtime.elastic_pool import ElasticPool
from gitsync.runtime.work_costs import RequestCount, StageTimer, count_request, counted_for


def test_requests_of_tasks_count_for_who_submitted_them() -> None:
    whole = RequestCount()
    one, other = RequestCount(whole), RequestCount(whole)
    with ElasticPool(4) as pool:
        with counted_for(one):
            tasks = [pool.submit(count_request) for _ in range(50)]
            count_request()
        with counted_for(other):
            tasks += [pool.submit(count_request) for _ in range(20)]
        tasks += [pool.submit(count_request) for _ in range(10)]
        wait(tasks)
    assert (one.value, other.value, whole.value) == (51, 20, 71)


def test_a_request_for_no_application_is_not_counted() -> None:
    count = RequestCount()
    with counted_for(count):
        count_request()
    count_request()
    assert count.value == 1


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_stage_ends_where_the_next_one_begins_and_may_come_again() -> None:
    wall, cpu = Clock(), Clock()
    timer = StageTimer("read", monotonic=wall, cpu=cpu)
    wall.time, cpu.time = 1.0, 0.5
    timer.enter("plan")
    wall.time = 3.0
    timer.enter("read")
    wall.time, cpu.time = 4.0, 0.75
    timer.enter("read")
    assert timer.intervals() == (("read", 0.0, 1.0, 0.5), ("plan", 1.0, 3.0, 0.0), ("read", 3.0, 4.0, 0.25))
