"""A lock between the processes of one machine, in a file beside the database."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

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
    descriptor = _opened(file)
    try:
        _lock(descriptor, file, time.monotonic() + seconds)
        yield
    finally:
        os.close(descriptor)


def _opened(file: Path) -> int:
    try:
        return os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RecordUnavailable(
            f"the history database cannot be used: its lock: {error.strerror}",
            location=str(file),
            hint="create the folder, or correct its permissions",
        ) from error


def _lock(descriptor: int, file: Path, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise RecordUnavailable(
                    "another process has been writing to the history database for too long", location=str(file)
                ) from None
        time.sleep(_POLL)
