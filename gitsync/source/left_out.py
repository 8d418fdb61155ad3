"""
Files that the first fetch into a mirror left out because of their size, where the server supports that.

Each is fetched by its id when it is needed: manifests below an application's path before its build, any other file
when a build reads it. A missing file that is not listed here was damaged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from gitsync.errors import FileNotFetched, SourceUnavailable
from gitsync.files import PRIVATE, write_file
from gitsync.source.git import environment, run
from gitsync.source.landlock import Confinement

# marker file: the ids of the files that were left out and not fetched since, one in a line
_LEFT_OUT = "gitsync-left-out"
_MANIFESTS = (".yaml", ".yml", ".json")


def list_left_out(git_dir: Path, commit: str, seconds: float, confinement: Confinement) -> None:
    """Write down which files a new mirror lacks of the history of a commit."""
    arguments = ("rev-list", "--objects", "--quiet", "--missing=print", commit)
    missing = run(git_dir, *arguments, env=environment(()), timeout=seconds, confinement=confinement).decode()
    if missing:
        write_file(git_dir / _LEFT_OUT, missing.replace("?", ""), PRIVATE)


def left_out(git_dir: Path) -> frozenset[str]:
    """Return the ids of the files that were left out of a mirror."""
    try:
        return frozenset((git_dir / _LEFT_OUT).read_text(errors="replace").split())
    except FileNotFoundError:
        return frozenset()
    except OSError as error:  # an empty answer would make a build report what it lacks as damaged
        raise SourceUnavailable(f"the mirror cannot be read: {error.strerror}") from error


def not_fetched(git_dir: Path, id: str) -> FileNotFetched:
    """Return the error of a file that was left out."""
    error = FileNotFetched("the file is large and was not fetched yet", hint="it is fetched by the next attempt")
    error.git_dir = str(git_dir)
    error.id = id
    return error


def manifests(files: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the ids of those files, given by path and id, which are manifests by their names."""
    return frozenset(id for path, id in files if path.endswith(_MANIFESTS))


def record_left_out(git_dir: Path, ids: Collection[str]) -> None:
    """Write down which files are not in the repository."""
    write_file(git_dir / _LEFT_OUT, "".join(f"{id}\n" for id in sorted(ids)), PRIVATE)


def record_fetched(git_dir: Path, ids: Collection[str]) -> None:
    """Write down that files which were left out are in the mirror now."""
    # by rename: a build in another process that read half of the list would take the other half for damaged
    record_left_out(git_dir, left_out(git_dir).difference(ids))
