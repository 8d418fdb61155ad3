"""Processes that tests start: each has ended, and its pipes are closed, on every way out of the block."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Sequence
from typing import Any


@contextlib.contextmanager
def child_process(command: Sequence[object], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a command with the options of Popen and yield its process; it is killed at the end where it still runs."""
    process = subprocess.Popen([str(part) for part in command], **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a write that the killed process did not read
                    pipe.close()
