"""The trees that a render process reads: the one of the last commit is kept, for its other applications."""

from __future__ import annotations

import sys

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry, Tree
from gitsync.source.snapshot import GitTree, Limits


class MeteredTree:
    """A tree of which one build may read a limited number of bytes."""

    def __init__(self, tree: Tree, limit: int) -> None:
        self._tree = tree
        self._limit = limit
        self._read = 0

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        return self._tree.entry(path)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return self._tree.names(path)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return self._tree.blob_id(path)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file; raise InvalidInput when the build has read more than its limit."""
        content = self._tree.read(path)
        self._read += len(content)
        if self._read > self._limit:
            raise InvalidInput(
                f"the files read exceed the limit of {self._limit >> 20} MiB",
                location=path,
                hint="divide the application",
            )
        return content


class TreeCache:
    """Open trees of commits; only the last one stays open."""

    def __init__(self) -> None:
        self._limits = Limits()
        self._of = ("", "")
        self._tree: GitTree | None = None

    def open(self, git_dir: str, commit: str) -> Tree:
        """Return the tree of a commit, for one build."""
        if self._tree is None or self._of != (git_dir, commit):
            if self._tree is not None:
                self._tree.close()
            self._tree = GitTree(git_dir, commit, Limits(read_bytes=sys.maxsize))
            self._of = (git_dir, commit)
        return MeteredTree(self._tree, self._limits.read_bytes)
