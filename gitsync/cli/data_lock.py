"""The lock on the data folder: one controller at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from gitsync.errors import InvalidInput

_NAME = "controller.lock"


@contextlib.contextmanager
def lock_data(folder: Path) -> Iterator[None]:
    """
    Lock the data folder for this process; raise InvalidInput with the name of the process that has locked it.

    The kernel releases the lock when the process ends, however it ends; child processes do not inherit it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _NAME).open("a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            file.seek(0)
            raise InvalidInput(
                f"the data folder {folder} is in use by {file.read().strip() or 'another process'}",
                location="--data",
                hint="stop that process, or name another folder with --data or GITSYNC_DATA",
            ) from error
        file.truncate(0)
        file.write(f"process {os.getpid()} ({shlex.join(['gitsync', *sys.argv[1:]])})\n")
        file.flush()
        yield
