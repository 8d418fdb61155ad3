"""Tree: a read-only file tree, such as one commit or a folder on disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol


class Entry(Enum):
    """The kind of entry at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    SUBMODULE = "submodule"


class Tree(Protocol):
    """
    Read files by clean relative paths with ``/`` (``""`` is the root); nothing is followed or resolved.

    A path never contains ``.``, ``..``, an empty part or a leading slash; the caller cleans it first.
    """

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself (a link is a LINK), or None."""
        ...

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        ...

    def read(self, path: str) -> bytes:
        """
        Return the bytes of a file; for a LINK, its target text.

        Raise InvalidInput when it is larger than the tree's limit for one file, KeyError when absent.
        """
        ...

    def blob_id(self, path: str) -> str:
        """Return an id of the content: equal ids mean equal bytes."""
        ...


class _JoinedTree(ABC):
    """A tree of which each path is in one of several trees."""

    @abstractmethod
    def _find(self, path: str) -> tuple[Tree, str]:
        """Return the tree that a path is in, and its path there."""

    def entry(self, path: str) -> Entry | None:
        """Return the kind of entry at the path itself, or None."""
        tree, inside = self._find(path)
        # the root of a tree has no entry
        return tree.entry(inside) if inside else Entry.FOLDER

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


class Subtree(_JoinedTree):
    """The files of one folder of a tree, as a tree of their own."""

    def __init__(self, tree: Tree, folder: str) -> None:
        self._tree = tree
        self._folder = folder

    def _find(self, path: str) -> tuple[Tree, str]:
        return self._tree, f"{self._folder}/{path}" if path else self._folder


class ReplacedFolder(_JoinedTree):
    """A tree with the files of another one in a folder; both are one repository, unlike those of a MountedTree."""

    def __init__(self, tree: Tree, folder: str, files: Tree) -> None:
        self._tree = tree
        self._folder = folder
        self._files = files

    def _find(self, path: str) -> tuple[Tree, str]:
        if path == self._folder or path.startswith(f"{self._folder}/"):
            return self._files, path[len(self._folder) + 1 :]
        return self._tree, path


class MountedTree(_JoinedTree):
    """
    A tree with the files of other repositories below paths of their own, for one build.

    ``references`` maps each reference, as it is written, to the folder that it names.
    """

    def __init__(self, tree: Tree, mounts: Mapping[str, Tree], references: Mapping[str, str]) -> None:
        self._tree = tree
        self._mounts = mounts
        self.references = references

    def edited(self, edit: Callable[[Tree], Tree]) -> MountedTree:
        """Return the tree with other files of this repository; those of others stay."""
        return MountedTree(edit(self._tree), self._mounts, self.references)

    def mount_of(self, path: str) -> str:
        """Return the path of the other repository that a path is in, empty for this one."""
        # with the slash: one mount may be the beginning of another one's name
        return next((mount for mount in self._mounts if path == mount or path.startswith(f"{mount}/")), "")

    def _find(self, path: str) -> tuple[Tree, str]:
        mount = self.mount_of(path)
        return (self._mounts[mount], path[len(mount) + 1 :]) if mount else (self._tree, path)
