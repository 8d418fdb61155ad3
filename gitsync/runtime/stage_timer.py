"""StageTimer: how long each stage of one piece of work takes."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping


class StageTimer:
    """
    Add up seconds, and CPU seconds of this thread, by stage; one stage ends where the next one begins.

    A stage may be entered several times. It is used by one thread.
    """

    def __init__(
        self,
        stage: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        cpu: Callable[[], float] = time.thread_time,
    ) -> None:
        self._stage = stage
        self._monotonic = monotonic
        self._cpu = cpu
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cpu_seconds: defaultdict[str, float] = defaultdict(float)
        self._since = (monotonic(), cpu())

    def enter(self, stage: str) -> None:
        """End the current stage and begin another one."""
        now = (self._monotonic(), self._cpu())
        self._seconds[self._stage] += now[0] - self._since[0]
        self._cpu_seconds[self._stage] += now[1] - self._since[1]
        self._stage, self._since = stage, now

    def stages(self) -> Mapping[str, tuple[float, float]]:
        """Return seconds and CPU seconds of each stage until now."""
        self.enter(self._stage)
        return {stage: (seconds, self._cpu_seconds[stage]) for stage, seconds in self._seconds.items()}
