"""Requests are counted for the Application that they are made for, in whatever thread."""

from __future__ import annotations

from concurrent.futures import wait

from gitsync.runtime.elastic_pool import ElasticPool
from gitsync.runtime.request_count import RequestCount, count_request, counted_for


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
