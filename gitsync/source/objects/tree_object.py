"""TreeObject: the entries of a folder, as Git stores them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gitsync.objects.tree import Entry

_KINDS: Final = {b"40000": Entry.FOLDER, b"120000": Entry.LINK, b"160000": Entry.SUBMODULE}
_SIZES = (20, 32)
"""Bytes of an id of SHA-1 and of SHA-256."""
_ENTRY: Final = {size: re.compile(rb"0*([0-7]+) ([^\0]+)\0(.{%d})" % size, re.DOTALL) for size in _SIZES}
_WHOLE: Final = {size: re.compile(rb"(?:[0-7]+ [^\0]+\0.{%d})*" % size, re.DOTALL) for size in _SIZES}


class TreeEntry(NamedTuple):
    """What a name in a folder is, and the id of its object."""

    kind: Entry
    id: str


class TreeObject(Mapping[str, TreeEntry]):
    """
    The entries of a folder by name; ``content`` is that of a tree object, whose ids have ``id_bytes``.

    Entries are ``MODE NAME NUL ID``, see git-mktree(1). They are decoded when they are read: of a folder with
    thousands of entries, a commit changes few. Raise ValueError for other content.
    """

    def __init__(self, content: bytes = b"", id_bytes: int = 20) -> None:
        if _WHOLE[id_bytes].fullmatch(content) is None:
            raise ValueError("not the content of a tree object")
        self._entries = {found[1]: found for found in _ENTRY[id_bytes].findall(content)}

    def __getitem__(self, name: str) -> TreeEntry:
        return _entry(self._entries[name.encode("utf-8", "surrogateescape")])

    def find(self, name: str) -> TreeEntry | None:
        """Return an entry, None where there is none: builds ask for many."""
        found = self._entries.get(name.encode("utf-8", "surrogateescape"))
        return _entry(found) if found is not None else None

    def __iter__(self) -> Iterator[str]:
        return map(_decoded, self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def differing(self, other: TreeObject) -> Iterator[str]:
        """Yield the names that are not the same entry in both."""
        mine, others = self._entries, other._entries
        yield from (_decoded(name) for name, entry in mine.items() if others.get(name) != entry)
        yield from map(_decoded, others.keys() - mine.keys())


def _entry(found: tuple[bytes, bytes, bytes]) -> TreeEntry:
    mode, _, id = found
    return TreeEntry(_KINDS.get(mode, Entry.FILE), id.hex())


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
