"""FolderTree: a folder on disk, read as a tree; for the command line and for tests."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from gitsync.errors import InvalidInput
from gitsync.objects.tree import Entry
from gitsync.source.lfs import reject_pointer
from gitsync.source.limits import FILE_MIB

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
            if error.errno == errno.ELOOP:
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
            if size > self._limit:
                what = f"the file is larger than the limit of {self._limit} bytes"
                raise InvalidInput(what, location=path, hint="split it, or raise GITSYNC_FILE_MIB")
        return b"".join(chunks)

    def blob_id(self, path: str) -> str:
        """Return an id of the content."""
        import hashlib  # late: it loads OpenSSL, and to build once needs no ids

        return hashlib.sha256(self.read(path)).hexdigest()
