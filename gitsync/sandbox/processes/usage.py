"""What processes use of CPU and memory, read from ``/proc``; elsewhere than on Linux nothing is measured."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from gitsync.sandbox.controllers.nodes.runtime import ContainerUsage

_PROC = Path("/proc")
# A shorter window would show the ticks of the kernel's clock, of which there are 100 a second.
_SHORTEST_WINDOW = 1.0
# Fields of /proc/PID/stat behind the name of the program (proc_pid_stat(5), numbered from its field 3).
_SESSION = 3
_CPU_TICKS = slice(11, 15)
"""User and system time of the process, and of its children that have ended."""
_RESIDENT_PAGES = 21

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class ProcessSession:
    """A process that leads a session of its own, and the monotonic time when it was started."""

    pid: int
    started: float


@dataclass(frozen=True, slots=True)
class _Sample:
    session: ProcessSession
    time: float
    cpu_seconds: float


class UsageMeter(Generic[K]):
    """
    Measure sessions by the difference between two readings.

    A reading is taken when one is asked for, so that processes that no client watches cost nothing. The first one of a
    session is compared with its start.
    """

    def __init__(self, clock: Callable[[], float], read: Callable[[], Mapping[int, tuple[float, int]]]) -> None:
        self._clock = clock
        self._read = read
        self._samples: dict[K, _Sample] = {}
        self._usage: dict[K, ContainerUsage] = {}
        self._measured_at = float("-inf")

    def measure(self, sessions: Mapping[K, ProcessSession]) -> Mapping[K, ContainerUsage]:
        """Return the usage of each session that runs; one that was started within the last second is left out."""
        now = self._clock()
        if now - self._measured_at >= _SHORTEST_WINDOW:
            self._measured_at = now
            self._take_samples(sessions, now)
        return {key: usage for key, usage in self._usage.items() if key in sessions}

    def _take_samples(self, sessions: Mapping[K, ProcessSession], now: float) -> None:
        readings = self._read()
        samples: dict[K, _Sample] = {}
        self._usage = {}
        for key, session in sessions.items():
            if session.pid not in readings:
                continue
            cpu_seconds, memory = readings[session.pid]
            former = self._samples.get(key)
            # A container that was restarted begins again.
            if former is None or former.session != session:
                former = _Sample(session, session.started, 0.0)
            window = now - former.time
            if window < _SHORTEST_WINDOW:
                samples[key] = former
                continue
            # A child that ends without being waited for takes its time with it, which must not look like negative work.
            cores = max(0.0, cpu_seconds - former.cpu_seconds) / window
            self._usage[key] = ContainerUsage(cores, memory, window)
            samples[key] = _Sample(session, now, cpu_seconds)
        self._samples = samples


def read_sessions() -> dict[int, tuple[float, int]]:
    """Return CPU seconds and resident bytes of each session of this machine, summed over its processes."""
    totals: defaultdict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    if not _PROC.is_dir():
        return {}
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.scandir(_PROC):
        if not entry.name.isdecimal():
            continue
        try:
            text = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it ended meanwhile
        # The name of the program is in parentheses, and may contain blanks and parentheses itself.
        fields = text.rpartition(")")[2].split()
        total = totals[int(fields[_SESSION])]
        total[0] += sum(map(int, fields[_CPU_TICKS])) / tick
        total[1] += int(fields[_RESIDENT_PAGES]) * page
    return {session: (cpu_seconds, int(memory)) for session, (cpu_seconds, memory) in totals.items()}
