"""The lock on the data folder: one controller at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gitsync.errors import InvalidInput

_NAME = "controller.lock"
_TEMPORARY = ("gitsync-keys-", "gitsync-revert-", "gitsync-ssh-")
_LEFTOVER_AGE = 3600.0
"""Seconds after which a temporary file belongs to no process that still runs."""


@contextlib.contextmanager
def lock_data(folder: Path) -> Iterator[None]:
    """
    Lock the data folder for this process; raise InvalidInput with the name of the process that has locked it.

    The kernel releases the lock when the process ends, however it ends; child processes do not inherit it.
    """
    protect(folder)
    remove_leftovers(Path(tempfile.gettempdir()))
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


def protect(folder: Path) -> None:
    """
    Restrict the data folder to its owner, with what is in it: history, mirrors and the keys of the sandbox.

    All files that this process creates from now on are its owner's only. Raise InvalidInput when the folder belongs to
    another user.
    """
    os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for file in folder.iterdir():
            if not file.is_symlink():
                file.chmod(0o700 if file.is_dir() else 0o600)
    except OSError as error:
        raise InvalidInput(
            f"the data folder {folder} cannot be used: {error.strerror}",
            location="--data",
            hint="run the controller as the owner of the folder, or name another one with --data or GITSYNC_DATA",
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of controllers that were killed: old ones of this user."""
    before = time.time() - _LEFTOVER_AGE
    for prefix in _TEMPORARY:
        for path in folder.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                found = path.lstat()
                if found.st_uid != os.geteuid() or found.st_mtime > before:
                    continue
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
