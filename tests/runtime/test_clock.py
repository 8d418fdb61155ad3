"""Periodic tasks: when they run, and that a failed one runs again."""

from __future__ import annotations

import logging

import pytest

from gitsync.runtime.clock import Periodic
from tests.waiting import until


def test_a_task_runs_at_the_start_and_again_until_it_is_stopped() -> None:
    runs: list[int] = []
    periodic = Periodic("count", lambda: runs.append(1), 0.01)
    periodic.start()
    until(lambda: len(runs) > 2)
    periodic.stop()
    ended = len(runs)
    assert not periodic._thread.is_alive()
    assert len(runs) == ended


def test_a_task_may_wait_for_the_first_interval() -> None:
    runs: list[int] = []
    periodic = Periodic("count", lambda: runs.append(1), 3600, at_start=False)
    periodic.start()
    periodic.stop()
    assert runs == []


def test_a_task_that_failed_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    runs: list[int] = []

    def fail() -> None:
        runs.append(1)
        raise KeyError("defect")

    periodic = Periodic("count", fail, 0.01)
    with caplog.at_level(logging.ERROR):
        periodic.start()
        until(lambda: len(runs) > 1)
        periodic.stop()
    assert "count failed, and runs again in 0 s" in caplog.text


def test_stopping_a_task_that_was_not_started_returns() -> None:
    Periodic("count", lambda: None, 1).stop()
