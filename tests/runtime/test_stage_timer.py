"""The intervals of stages, with the CPU seconds of their thread."""

from __future__ import annotations

from gitsync.runtime.stage_timer import StageTimer


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
