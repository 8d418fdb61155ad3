"""FolderTree: a folder on disk, read as a tree; for the command line and for tests."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry

_LIMIT: Final = 16 << 20
_ENTRIES: Final = {stat.S_IFLNK: Entry.LINK, stat.S_IFDIR: Entry.FOLDER, stat.S_IFREG: Entry.FILE}


class FolderTree:
    """Read a folder as a Tree: links are reported, never followed, and nothing is written."""

    def __init__(self, root: Path, *, max_file_bytes: int = _LIMIT) -> None:
        self._root = root
        self._limit = max_file_bytes

    def _at(self, path: str) -> str:
        return os.path.join(self._root, path)

    def entry(self, path: str) -> Entry | None:
        """Return what stands at a path, or None; sockets, devices and the like count as nothing."""
        try:
            mode = os.lstat(self._at(path)).st_mode
        except OSError:
            return None
        return _ENTRIES.get(stat.S_IFMT(mode))

    def names(self, path: str) -> tuple[str, ...]:
        """Return the sorted names in a folder."""
        return tuple(sorted(os.listdir(self._at(path))))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file, or the target of a link."""
        place = self._at(path)
        if os.path.islink(place):
            return os.fsencode(os.readlink(place))
        try:
            with open(place, "rb") as file:
                content = file.read(self._limit + 1)
        except FileNotFoundError as error:
            raise KeyError(path) from error
        except OSError as error:
            raise InvalidInput(f"the file cannot be read: {error.strerror}", where=path) from error
        if len(content) > self._limit:
            raise InvalidInput(f"the file is larger than the limit of {self._limit} bytes", where=path, cure="split it")
        return content

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        return hashlib.sha256(self.read(path)).hexdigest()
