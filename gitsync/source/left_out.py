"""
Files that the first fetch into a mirror left out because of their size, where the server supports that.

Each is fetched by its id when it is needed: manifests below an application's path before its build, any other file
after a build has tried to read it. A missing file that is not listed here was damaged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path

from gitsync.files import PRIVATE, write_file
from gitsync.source.git import environment, run

# marker file: the ids of the files that were left out and not fetched since, one in a line
_LEFT_OUT = "gitsync-left-out"
# marker file: the ids of those that a build has tried to read
_WANTED = "gitsync-wanted"
_MANIFESTS = (".yaml", ".yml", ".json")


def list_left_out(git_dir: Path, commit: str, seconds: float) -> None:
    """Write down which files a new mirror lacks of the history of a commit."""
    arguments = ("rev-list", "--objects", "--quiet", "--missing=print", commit)
    missing = run(git_dir, *arguments, env=environment(()), timeout=seconds).decode()
    if missing:
        write_file(git_dir / _LEFT_OUT, missing.replace("?", ""), PRIVATE)


def left_out(git_dir: Path) -> frozenset[str]:
    """Return the ids of the files that were left out of a mirror."""
    return _lines(git_dir / _LEFT_OUT)


def request(git_dir: Path, id: str) -> bool:
    """Have a file fetched with the next commit; return whether it was left out."""
    if id not in left_out(git_dir):
        return False
    with contextlib.suppress(OSError), (git_dir / _WANTED).open("a") as wanted:
        wanted.write(f"{id}\n")
    return True


def requested(git_dir: Path) -> frozenset[str]:
    """Return the ids of the files that builds have requested and that were not fetched since."""
    return _lines(git_dir / _WANTED) & left_out(git_dir)


def manifests(files: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the ids of those files, given by path and id, which are manifests by their names."""
    return frozenset(id for path, id in files if path.endswith(_MANIFESTS))


def record_fetched(git_dir: Path, ids: Collection[str]) -> None:
    """Write down that files which were left out are in the mirror now."""
    remaining = sorted(left_out(git_dir).difference(ids))
    # by rename: a build in another process that read half of the list would take the other half for damaged
    write_file(git_dir / _LEFT_OUT, "".join(f"{id}\n" for id in remaining), PRIVATE)
    (git_dir / _WANTED).unlink(missing_ok=True)


def _lines(file: Path) -> frozenset[str]:
    with contextlib.suppress(OSError):
        return frozenset(file.read_text(errors="replace").split())
    return frozenset()
