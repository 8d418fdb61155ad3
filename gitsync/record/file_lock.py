"""A lock between the processes of one machine, in a file beside the database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from gitsync.errors import RecordUnavailable

_POLL = 0.001
"""Seconds between two attempts; a transaction takes a few milliseconds."""


@contextlib.contextmanager
def held(file: Path | None, seconds: float) -> Iterator[None]:
    """
    Hold a file's lock; the system releases it when this process ends. None locks nothing.

    Raise RecordUnavailable where another process holds it for longer than ``seconds``.
    """
    if file is None:
        yield
        return
    lock = FileLock(file, mode=0o600)
    try:
        os.stat(file.parent)  # the lock would create an absent folder
        lock.acquire(timeout=seconds, poll_interval=_POLL)
    except Timeout:
        raise RecordUnavailable(
            "another process has been writing to the history database for too long", location=str(file)
        ) from None
    except OSError as error:
        raise RecordUnavailable(
            f"the history database cannot be used: its lock: {error.strerror}",
            location=str(file),
            hint="create the folder, or correct its permissions",
        ) from error
    try:
        yield
    finally:
        lock.release()
