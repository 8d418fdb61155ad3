"""The trees that a render process reads: the reader of the last repository is kept, for its other Applications."""

from __future__ import annotations

from gitsync.objects.tree import Tree
from gitsync.source.objects.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, Limits, MeteredTree


class TreeCache:
    """Open trees of commits; only the reader of the last repository stays open."""

    def __init__(self) -> None:
        self._reader = ObjectReader("")

    def open(self, git_dir: str, commit: str, file_bytes: int) -> Tree:
        """Return the tree of a commit, for one build that may read files of this size."""
        if str(self._reader.git_dir) != git_dir:
            self._reader.close()
            self._reader = ObjectReader(git_dir)
        limits = Limits(file_bytes=file_bytes)
        return MeteredTree(GitTree(git_dir, commit, limits, self._reader), limits.read_bytes)
