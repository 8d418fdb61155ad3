"""The data folder of a controller: its lock, which one controller at a time has, and the database in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gitsync.cli.options import load_settings
from gitsync.errors import InvalidInput
from gitsync.record.audit_chain import AuditHeads
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords

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
    # "a+" does not truncate: the name of the process that holds the lock remains readable
    with (folder / _NAME).open("a+", encoding="utf-8") as file:
        try:
            # a lock of fcntl, unlike one of flock(), is not inherited by a fork
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            file.seek(0)
            raise InvalidInput(
                f"the data folder {folder} is in use by {file.read().strip() or 'another process'}",
                location="--data",
                hint="stop that process, or name another folder with --data or GITSYNC_DATA",
            ) from error
        # with the lock: before, the text is that of the process that holds it
        file.truncate(0)
        file.write(f"process {os.getpid()} ({shlex.join(['gitsync', *sys.argv[1:]])})\n")
        file.flush()
        yield


def protect(folder: Path) -> None:
    """
    Restrict the data folder to its owner, with what is in it: history, mirrors and the keys of the sandbox.

    All files that this process creates from now on are its owner's only. What belongs to another user stays as it is:
    a Kubernetes volume is root's, and writable by its fsGroup. Raise InvalidInput when the folder cannot be written.
    """
    os.umask(0o077)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (folder, *folder.iterdir()):
            # not through links, whose targets may be elsewhere
            status = path.lstat()
            if status.st_uid == os.geteuid() and not stat.S_ISLNK(status.st_mode):
                path.chmod(0o700 if stat.S_ISDIR(status.st_mode) else 0o600)
    except OSError as error:
        raise _unusable(folder, error.strerror or str(error)) from error
    # a volume may be root's and writable by a group: only this shows whether it is writable here
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _unusable(folder, "Permission denied")


def _unusable(folder: Path, reason: str) -> InvalidInput:
    return InvalidInput(
        f"the data folder {folder} cannot be used: {reason}",
        location="--data",
        hint="run the controller as a user who may write to it, or name another folder with --data or GITSYNC_DATA",
    )


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of controllers that were killed: old ones of this user."""
    oldest = time.time() - _LEFTOVER_AGE
    for prefix in _TEMPORARY:
        for path in folder.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                status = path.lstat()
                # the folder is shared with other users, who may choose the same prefix
                if status.st_uid != os.geteuid() or status.st_mtime > oldest:
                    continue
                # a link is removed, never followed
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


@contextlib.contextmanager
def open_records(data: Path) -> Iterator[SqlRecords]:
    """
    Yield the controller's records: in the database of GITSYNC_DATABASE, else of the data folder.

    Raise InvalidInput when there is no such file: opening it would create an empty database.
    """
    url = database_url_of(data)
    records = SqlRecords(RecordDatabase(url), AuditHeads(load_settings(data=data).audit_heads))
    try:
        yield records
    finally:
        records.close()


def database_url_of(data: Path) -> str:
    """Return the URL of the controller's database; raise InvalidInput where its file does not exist."""
    url = load_settings(data=data).database_url
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None and not file.is_file():
        raise InvalidInput(
            f"history database {file} does not exist",
            location="--data",
            hint="run this beside the controller with its --data, or set GITSYNC_DATABASE to its URL",
        )
    return url
