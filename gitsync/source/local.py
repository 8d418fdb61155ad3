"""
Trees for the command line: a folder on disk, or a revision of the repository it is in.

A folder on disk needs no Git: what talks to it is imported for a revision alone, for it takes as long to load as
hundreds of resources take to render.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Tree
from gitsync.source.folder import FolderTree
from gitsync.source.limits import file_limit

if TYPE_CHECKING:
    from pathlib import Path


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
        raise InvalidInput("there is no such folder", location=path)
    root = place
    while not _is_top(root) and os.path.dirname(root) != root:
        root = os.path.dirname(root)
    inside = os.path.relpath(place, root)
    return LocalTarget(FolderTree(root, max_file_bytes=file_limit()), "" if inside == os.curdir else inside)


def _is_top(folder: str) -> bool:
    """Return whether a folder is the top of a working tree; in a linked one, or a submodule, .git is a file."""
    git = os.path.join(folder, ".git")
    return os.path.exists(os.path.join(git, "HEAD")) or os.path.isfile(git)


def _at_revision(path: str, revision: str) -> LocalTarget:
    from pathlib import Path

    from gitsync.source.git import require_git
    from gitsync.source.snapshot import GitTree, Limits

    require_git()
    place = Path(path).resolve()
    top, git_dir = _repository(place)
    if top is None or git_dir is None:
        raise InvalidInput("is not inside a Git repository, so --rev means nothing", location=path)
    inside = place.relative_to(top).as_posix()
    return LocalTarget(
        GitTree(git_dir, _commit(git_dir, revision), Limits(file_bytes=file_limit())), "" if inside == "." else inside
    )


def _repository(place: Path) -> tuple[Path | None, Path | None]:
    from pathlib import Path

    from git import Repo
    from git.exc import InvalidGitRepositoryError, NoSuchPathError

    try:
        with Repo(_existing(place), search_parent_directories=True) as repo:
            return (Path(repo.working_dir), Path(repo.git_dir)) if repo.working_dir else (None, None)
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None, None


def _existing(place: Path) -> Path:
    """Return the nearest folder that exists: a revision may have folders that the disk lacks."""
    return place if place.exists() else _existing(place.parent)


def _commit(git_dir: Path, revision: str) -> str:
    from gitsync.source.git import GitFailed, environment, run

    try:
        found = run(
            git_dir, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}",
            env=environment(()),
        )  # fmt: skip
    except GitFailed as error:
        raise InvalidInput(f"revision {revision!r} not found", location="--rev") from error
    return found.decode().strip()
