"""The peak memory of the git and render processes that the controller of a case starts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_INTERVAL = 0.1


class PeakMemory:
    """
    Sample the processes below this one that work on the data of a controller, or render for it.

    ``RUSAGE_CHILDREN`` would count the git of the test itself, a browser, and the children of earlier tests.
    """

    def __init__(self, data: Path) -> None:
        self._data = str(data).encode()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.mib = 0

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._end.wait(_INTERVAL):
            self.mib = max([self.mib, *map(self._peak_of, _below("self"))])

    def _peak_of(self, process: str) -> int:
        """Return the peak of a process in MiB, 0 for any other and for one that has ended."""
        try:
            command = Path("/proc", process, "cmdline").read_bytes()
            if self._data not in command and b"gitsync.workers" not in command:
                return 0
            lines = Path("/proc", process, "status").read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM:")), 0)


def _below(process: str) -> Iterator[str]:
    """Yield the ids of the processes that a process started, at every depth."""
    for task in Path("/proc", process, "task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield child
                yield from _below(child)
