"""What a controller does with each answer of a reconcile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from gitsync.errors import ClusterUnavailable, InvalidInput
from gitsync.runtime.controller import Controller, Manager
from gitsync.runtime.workqueue import Backoff, WorkQueue

Run = Callable[[Callable[[str], float | None]], WorkQueue[str]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Return a function that starts a controller over a queue with short delays."""
    started: list[Controller[str]] = []

    def start(reconcile: Callable[[str], float | None]) -> WorkQueue[str]:
        keys: WorkQueue[str] = WorkQueue(Backoff(initial=0.01, max=0.02))
        controller = Controller("test", keys, reconcile, workers=2)
        controller.start()
        started.append(controller)
        return keys

    yield start
    for controller in started:
        controller.stop()


def calls(run: Run, answers: list[float | Exception | None]) -> tuple[int, WorkQueue[str]]:
    """Reconcile one key with these answers; return how often it was called until quiet."""
    count = 0
    enough = threading.Event()

    def reconcile(key: str) -> float | None:
        nonlocal count
        answer = answers[min(count, len(answers) - 1)]
        count += 1
        if count == len(answers):
            enough.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    keys = run(reconcile)
    keys.add("a")
    enough.wait(60)
    threading.Event().wait(0.1)  # long enough for one call too many
    return count, keys


def test_a_success_is_not_repeated(run: Run) -> None:
    assert calls(run, [None])[0] == 1


def test_a_success_that_asks_for_another_look_gets_it(run: Run) -> None:
    assert calls(run, [0.01, None])[0] == 2


def test_a_transient_failure_is_tried_again_until_it_succeeds(run: Run) -> None:
    count, keys = calls(run, [ClusterUnavailable("away"), ClusterUnavailable("away"), None])
    assert count == 3
    assert keys.failures("a") == 0


def test_what_an_outage_stopped_is_tried_again_soon_after_however_many_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    keys: WorkQueue[str] = WorkQueue()
    for _ in range(20):
        keys.retry("a")

    def fails(key: str) -> float | None:
        raise ClusterUnavailable("away")

    with caplog.at_level("INFO", "gitsync"):
        Controller("shops", keys, fails)._once("a")
    assert [record.getMessage() for record in caplog.records] == ["shops a: away; again in 10.0 s"]


def test_a_wait_that_the_other_side_asks_for_is_obeyed(run: Run) -> None:
    count, _ = calls(run, [ClusterUnavailable("busy", retry_after=60)])
    assert count == 1


def test_a_terminal_failure_waits_for_another_input(run: Run) -> None:
    assert calls(run, [InvalidInput("wrong")])[0] == 1


def test_our_own_mistake_is_logged_and_tried_again(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    assert calls(run, [ZeroDivisionError("mine"), None])[0] == 2
    assert "ZeroDivisionError" in caplog.text


class Recorder:
    def __init__(self, name: str, log: list[str], failing: str = "") -> None:
        self._name, self._log, self._failing = name, log, failing

    def start(self) -> None:
        self._log.append(f"start {self._name}")
        if self._failing == "start":
            raise RuntimeError("cannot start")

    def stop(self) -> None:
        self._log.append(f"stop {self._name}")
        if self._failing == "stop":
            raise RuntimeError("cannot stop")


def test_parts_stop_in_reverse_order() -> None:
    log: list[str] = []
    manager = Manager([Recorder("a", log), Recorder("b", log)])
    manager.start()
    manager.stop()
    assert log == ["start a", "start b", "stop b", "stop a"]


def test_a_part_that_cannot_start_takes_the_others_down() -> None:
    log: list[str] = []
    manager = Manager([Recorder("a", log), Recorder("b", log, "start"), Recorder("c", log)])
    with pytest.raises(RuntimeError):
        manager.start()
    assert log == ["start a", "start b", "stop b", "stop a"]


def test_a_part_that_cannot_stop_keeps_no_other_running() -> None:
    log: list[str] = []
    manager = Manager([Recorder("a", log), Recorder("b", log, "stop")])
    manager.start()
    manager.stop()
    assert log[-1] == "stop a"
