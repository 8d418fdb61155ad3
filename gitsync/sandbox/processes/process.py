"""One process: started with its log, watched, and ended with everything that it started."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.runtime.guard import guarded

_MAX_LOG = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process is started with; ``memory`` is its limit in bytes, 0 for none."""

    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    log: Path
    memory: int = 0


class Process:
    """A running program and its process group; ``on_end`` is called once, on a thread of its own."""

    def __init__(self, launch: Launch, on_end: Callable[[], None]) -> None:
        self.log = launch.log
        self.exit_code: int | None = None
        """The exit code as a container reports it: 128 and the signal after one; None while the program runs."""
        ours, theirs = os.pipe()
        try:
            with launch.log.open("ab") as output:
                self._process = subprocess.Popen(
                    guarded(launch.command),
                    stdin=ours,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(launch.env),
                    cwd=launch.folder,
                    start_new_session=True,
                )
        except BaseException:
            os.close(theirs)
            raise
        finally:
            os.close(ours)
        self._guard = theirs
        self._limit(launch.memory)
        self._thread = threading.Thread(target=self._wait, args=(on_end,), daemon=True, name=f"wait {launch.log.name}")
        self._thread.start()

    def terminate(self) -> None:
        """Ask the program to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program and all that it started."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait until the program has ended."""
        self._thread.join()

    def trim_log(self) -> None:
        """Empty a log that became too large; the program appends to it again from the start."""
        if self.log.stat().st_size > _MAX_LOG:
            os.truncate(self.log, 0)

    def _limit(self, memory: int) -> None:
        if memory and hasattr(resource, "prlimit"):
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (memory, memory))

    def _wait(self, on_end: Callable[[], None]) -> None:
        code = self._process.wait()
        self.exit_code = code if code >= 0 else 128 - code
        os.close(self._guard)  # the guard kills what is left of the group
        on_end()
