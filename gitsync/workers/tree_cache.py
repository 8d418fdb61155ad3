"""The trees that a render process reads: the reader of the last repository is kept, for its other Applications."""

from __future__ import annotations

from gitsync.objects.tree import Tree
from gitsync.source.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, Limits, MeteredTree


class TreeCache:
    """Open trees of commits; only the reader of the last repository stays open."""

    def __init__(self) -> None:
        self._limits = Limits()
        self._reader = ObjectReader("")

    def open(self, git_dir: str, commit: str) -> Tree:
        """Return the tree of a commit, for one build."""
        if str(self._reader.git_dir) != git_dir:
            self._reader.close()
            self._reader = ObjectReader(git_dir)
        return MeteredTree(GitTree(git_dir, commit, self._limits, self._reader), self._limits.read_bytes)
