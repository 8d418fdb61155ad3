"""Parts start in order, stop in reverse, and never stay up half."""

from __future__ import annotations

import pytest

from gitsync.runtime.manager import Manager


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
