"""Tree: a read-only file tree, such as one commit or a folder on disk."""

from __future__ import annotations

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
