"""The trees that a render process reads: the reader of the last repository is kept, for its other Applications."""

from __future__ import annotations

from typing import Any

from gitsync.objects.mounted_tree import MountedTree
from gitsync.objects.tree import Tree
from gitsync.source.objects.object_reader import ObjectReader
from gitsync.source.snapshot import GitTree, Limits, MeteredTree


class TreeCache:
    """Open trees of commits; only the reader of the last repository stays open."""

    def __init__(self) -> None:
        self._reader = ObjectReader("")

    def open_all(self, request: dict[str, Any]) -> Tree:
        """Return the tree of a request, with the files of other repositories that it names."""
        tree = self.open(request["git_dir"], request["commit"], request["file_bytes"])
        if not request.get("remotes"):
            return tree
        limits, mounts, references = Limits(file_bytes=request["file_bytes"]), dict[str, Tree](), dict[str, str]()
        for reference, mount, folder, git_dir, commit in request["remotes"]:
            references[reference] = folder
            if mount not in mounts:
                mounts[mount] = MeteredTree(GitTree(git_dir, commit, limits), limits.read_bytes)
        return MountedTree(tree, mounts, references)

    def open(self, git_dir: str, commit: str, file_bytes: int) -> Tree:
        """Return the tree of a commit, for one build that may read files of this size."""
        if str(self._reader.git_dir) != git_dir:
            self._reader.close()
            self._reader = ObjectReader(git_dir)
        limits = Limits(file_bytes=file_bytes)
        return MeteredTree(GitTree(git_dir, commit, limits, self._reader), limits.read_bytes)
