"""Objects of an unfinished fetch: kept apart from the mirror, and removed when the fetch does not complete."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

_INCOMING = "gitsync-incoming"
NEW = ".new"
"""Suffix of a mirror that is being made beside the one it replaces."""
_LEFTOVERS = ("*.lock", "refs/**/*.lock", "objects/*/tmp_*", "objects/pack/.tmp-*")


@contextlib.contextmanager
def quarantine(git_dir: Path) -> Iterator[dict[str, str]]:
    """
    Yield the environment in which git writes objects to a folder of its own; admit them to the mirror at the end.

    After an error, nothing of them is left.
    """
    incoming = git_dir / _INCOMING
    objects = git_dir / "objects"
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    try:
        yield {"GIT_OBJECT_DIRECTORY": str(incoming), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects)}
        _admit(incoming, objects)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def largest_file(git_dir: Path) -> int:
    """Return the size of the largest file in the quarantine, in bytes."""
    return max((file.stat().st_size for file in (git_dir / _INCOMING).rglob("*")), default=0)


def size_of(git_dir: Path) -> int:
    """Return how many bytes the files of a mirror take."""
    sizes = (os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(git_dir) for name in names)
    return sum(sizes)


def _admit(incoming: Path, objects: Path) -> None:
    files = [file for file in incoming.rglob("*") if file.is_file() and not _is_dropped(file)]
    for file in sorted(files, key=lambda file: file.suffix == ".idx"):  # a reader uses a pack once it has its index
        target = objects / file.relative_to(incoming)
        target.parent.mkdir(parents=True, exist_ok=True)
        file.rename(target)  # in one file system, so that a reader sees all of a pack or nothing


def _is_dropped(file: Path) -> bool:
    """Return whether git made a file for itself only: an unfinished one, or the mark of a pack without large files."""
    return file.name.startswith("tmp_") or file.suffix == ".promisor"


def remove_leftovers(git_dir: Path) -> None:
    """Remove what killed processes left of a mirror; the caller holds its lock, so that no fetch is running."""
    shutil.rmtree(git_dir.with_suffix(NEW), ignore_errors=True)
    shutil.rmtree(git_dir / _INCOMING, ignore_errors=True)
    for pattern in _LEFTOVERS:
        for file in git_dir.glob(pattern):
            file.unlink(missing_ok=True)


def remove_all_leftovers(folder: Path) -> None:
    """Remove what killed processes left of all mirrors below a folder, except of those that another process holds."""
    for name in {path.stem for path in folder.iterdir() if path.suffix in ("", NEW) and path.is_dir()}:
        git_dir = folder / name
        with contextlib.suppress(Timeout, OSError), FileLock(git_dir.with_suffix(".lock"), timeout=0, mode=0o600):
            remove_leftovers(git_dir)
