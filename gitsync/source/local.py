"""
Trees for the command line: a folder on disk, or a revision of the repository it is in; and the rules for every file.

A folder on disk needs no Git: what talks to it is imported for a revision alone, for it takes as long to load as
hundreds of resources take to render.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry, Tree

if TYPE_CHECKING:
    from pathlib import Path

    from gitsync.objects.record import Commit


FILE_MIB: Final = 16
"""The default, in MiB: bundles of CustomResourceDefinitions have several MiB, and a cluster takes 3 MiB per object."""
MAX_FILE_MIB: Final = 64
_VARIABLE: Final = "GITSYNC_FILE_MIB"


def file_limit() -> int:
    """Return the largest file, in bytes, that a command may read, as the environment sets it."""
    text = os.environ.get(_VARIABLE, str(FILE_MIB))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MAX_FILE_MIB:
        raise InvalidInput(
            f"{text!r} is not a number of MiB", location=_VARIABLE, hint=f"write a number from 1 to {MAX_FILE_MIB}"
        )
    return int(text) << 20


# Source: git-lfs, docs/spec.md; ``hawser`` is the name before its first release
_POINTERS = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")


def reject_pointer(content: bytes, path: str) -> None:
    """Raise InvalidInput when the content of a file is a Git LFS pointer: applied, it would replace the real data."""
    if content.startswith(_POINTERS):
        raise InvalidInput(
            "the file is a Git LFS pointer, and Git LFS is not supported",
            location=path,
            hint="commit the file itself: git lfs untrack, then git add --renormalize",
        )


class LocalTarget(NamedTuple):
    """A path inside a tree."""

    tree: Tree
    path: str


def open_path(path: str, revision: str = "") -> LocalTarget:
    """
    Return the tree that a path lies in, and the path below its root.

    The root is the top of the Git repository around the path, so that bases beside it can be read, or the root of
    the disk where there is none. With a revision, the tree is that commit's. Raise InvalidInput when there is no
    such folder, repository or revision.
    """
    if revision:
        return _at_revision(path, revision)
    place = os.path.realpath(path)
    if not os.path.isdir(place):
        raise _not_a_folder(path, place)
    root = place
    while not _is_top(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    inside = os.path.relpath(place, root)
    return LocalTarget(FolderTree(root, max_file_bytes=file_limit()), "" if inside == os.curdir else inside)


def _not_a_folder(path: str, place: str) -> InvalidInput:
    """Return the error for a path that is a file, or does not exist, with the folders of similar names beside it."""
    if os.path.exists(place):
        return InvalidInput("it is a file", location=path, hint=f"name its folder: {os.path.dirname(path) or '.'}")
    from difflib import get_close_matches  # late: a path that exists does not need it

    above = os.path.dirname(path.rstrip("/"))
    try:
        folders = [item.name for item in os.scandir(above or ".") if item.is_dir()]
    except OSError:  # the folder above does not exist either, or may not be read
        folders = []
    similar = [os.path.join(above, name) for name in get_close_matches(os.path.basename(place), folders, 3, 0.5)]
    hint = f"similar names: {', '.join(similar)}" if similar else ""
    return InvalidInput("the folder does not exist", location=path, hint=hint)


def _is_top(folder: str) -> bool:
    """Return whether a folder is the top of a working tree; in a linked one, or a submodule, .git is a file."""
    git = os.path.join(folder, ".git")
    return os.path.exists(os.path.join(git, "HEAD")) or os.path.isfile(git)


def _at_revision(path: str, revision: str) -> LocalTarget:
    from pathlib import Path

    from gitsync.source.git import require_git
    from gitsync.source.snapshot import GitTree, SourceLimits

    require_git()
    place = Path(path).resolve()
    top, git_dir = repository_of(place)
    if top is None or git_dir is None:
        raise InvalidInput("is not inside a Git repository, so --rev means nothing", location=path)
    inside = place.relative_to(top).as_posix()
    return LocalTarget(
        GitTree(git_dir, _commit(git_dir, revision), SourceLimits(file_bytes=file_limit())),
        "" if inside == "." else inside,
    )


def commit_at(path: str, revision: str) -> Commit:
    """Return the commit that a revision names in the repository around a path."""
    from pathlib import Path

    from gitsync.source.object_reader import ObjectReader

    _, git_dir = repository_of(Path(path).resolve())
    if git_dir is None:
        raise InvalidInput("is not inside a Git repository", location=path)
    reader = ObjectReader(git_dir)
    try:
        return reader.commit(_commit(git_dir, revision)).commit
    finally:
        reader.close()


def repository_of(place: Path) -> tuple[Path | None, Path | None]:
    """Return the work tree that a path is in, and its Git folder; None for both where there is none."""
    from pathlib import Path

    from git import Repo
    from git.exc import InvalidGitRepositoryError, NoSuchPathError

    try:
        with Repo(_existing(place), search_parent_directories=True) as repo:
            return (Path(repo.working_dir), Path(repo.git_dir)) if repo.working_dir else (None, None)
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None, None


def last_commit(git_dir: Path, file: str) -> str:
    """Return the commit that changed a file last, as of HEAD; empty where none did."""
    from gitsync.source.git import environment, run

    log = run(git_dir, "log", "--max-count=1", "--format=%H", "HEAD", "--", file, env=environment(()))
    return log.decode().strip()


def _existing(place: Path) -> Path:
    """Return the nearest folder that exists: a revision may have folders that the disk lacks."""
    return place if place.exists() else _existing(place.parent)


def _commit(git_dir: Path, revision: str) -> str:
    from gitsync.source.git import GitFailed, environment, run

    try:
        commit = run(
            git_dir, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
            env=environment(()),
        )  # fmt: skip
    except GitFailed as error:
        raise InvalidInput(f"revision {revision!r} not found", location="--rev") from error
    return commit.decode().strip()


_CHUNK: Final = 1 << 16
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_ENTRIES: Final = {stat.S_IFLNK: Entry.LINK, stat.S_IFDIR: Entry.FOLDER, stat.S_IFREG: Entry.FILE}


class FolderTree:
    """Read a folder as a Tree: links are reported, never followed, and nothing is written."""

    def __init__(self, root: str | os.PathLike[str], *, max_file_bytes: int = FILE_MIB << 20) -> None:
        self._root = os.path.join(root, "")
        self._limit = max_file_bytes

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at a path, or None; sockets, devices and the like count as absent."""
        try:
            mode = os.lstat(self._root + path).st_mode
        except (OSError, ValueError):  # a path can hold a NUL
            return None
        return _ENTRIES.get(stat.S_IFMT(mode))

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return tuple(sorted(os.listdir(self._root + path)))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, or the target of a link."""
        place = self._root + path
        try:
            file = os.open(place, _READ)
        except FileNotFoundError as error:
            raise KeyError(path) from error
        except OSError as error:
            if error.errno == errno.ELOOP:  # what O_NOFOLLOW answers for a link
                return os.fsencode(os.readlink(place))
            raise InvalidInput(f"the file cannot be read: {error.strerror}", location=path) from error
        try:
            content = self._content(file, path)
        except OSError as error:
            raise InvalidInput(f"the file cannot be read: {error.strerror}", location=path) from error
        finally:
            os.close(file)
        reject_pointer(content, path)
        return content

    def _content(self, file: int, path: str) -> bytes:
        chunks = []
        size = 0
        while chunk := os.read(file, _CHUNK):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._limit:  # counted while reading: a file may grow, and those of /proc have no size
                what = f"the file is larger than the limit of {self._limit} bytes"
                raise InvalidInput(what, location=path, hint="split it, or raise GITSYNC_FILE_MIB")
        return b"".join(chunks)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        import hashlib  # late: it loads OpenSSL, and to build once needs no ids

        return hashlib.sha256(self.read(path)).hexdigest()
