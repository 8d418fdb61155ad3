"""MountedTree: a tree with the files of other repositories."""

from __future__ import annotations

from collections.abc import Mapping

from gitsync.objects.tree import Entry, Tree


class MountedTree:
    """
    A tree with the files of other repositories below paths of their own, for one build.

    ``references`` maps each reference, as it is written, to the folder that it names.
    """

    def __init__(self, tree: Tree, mounts: Mapping[str, Tree], references: Mapping[str, str]) -> None:
        self._tree = tree
        self._mounts = mounts
        self.references = references

    def mount_of(self, path: str) -> str:
        """Return the path of the other repository that a path is in, empty for this one."""
        return next((mount for mount in self._mounts if path == mount or path.startswith(f"{mount}/")), "")

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        tree, inside = self._find(path)
        return tree.entry(inside)

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        tree, inside = self._find(path)
        return tree.names(inside)

    def read(self, path: str) -> bytes:
        """Return the bytes of a file or the target of a link."""
        tree, inside = self._find(path)
        return tree.read(inside)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        tree, inside = self._find(path)
        return tree.blob_id(inside)

    def _find(self, path: str) -> tuple[Tree, str]:
        mount = self.mount_of(path)
        return (self._mounts[mount], path[len(mount) + 1 :]) if mount else (self._tree, path)
