"""A lock on a folder, among threads and among processes: the command line may work beside the controller."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path


class FolderLock:
    """Let one thread of one process at a time into what the file stands for; the same thread may enter again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._threads = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    def __enter__(self) -> None:
        """Wait until nobody else is in."""
        self._threads.acquire()
        if not self._depth:
            try:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._descriptor = _locked(self._file)
            except BaseException:
                self._threads.release()
                raise
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        """Let the next one in."""
        self._depth -= 1
        if not self._depth:
            os.close(self._descriptor)
        self._threads.release()


def _locked(file: Path) -> int:
    """Return the descriptor of a file that no other process has locked; closing it ends that."""
    descriptor = os.open(file, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
