"""Parse commit and tree objects as Git stores them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final, NamedTuple

from gitsync.objects.record import Commit
from gitsync.objects.tree import Entry

_PERSON = re.compile(r"^(?P<name>.*?) ?<(?P<email>[^>]*)>(?: (?P<time>-?\d+) (?P<sign>[+-])(?P<zone>\d{4}))?")


def parse_commit(id: str, content: bytes) -> tuple[Commit, str]:
    """Return the metadata of a commit object and the id of its tree; text that is not valid is replaced."""
    head, _, message = content.partition(b"\n\n")
    fields: dict[bytes, bytes] = {}
    for line in head.split(b"\n"):
        name, _, value = line.partition(b" ")
        fields.setdefault(name, value)  # a line of a signature starts with a space: its name is empty
    encoding = fields.get(b"encoding", b"utf-8").decode("ascii", "replace")
    person = _PERSON.match(_decoded(fields.get(b"author", b""), encoding))
    commit = Commit(
        id=id,
        author=person["name"].strip() if person else "",
        email=person["email"] if person else "",
        message=_decoded(message, encoding).strip(),
        time=_time(_decoded(fields.get(b"committer", b""), encoding)),
    )
    return commit, fields[b"tree"].decode()


def _decoded(text: bytes, encoding: str) -> str:
    try:
        return text.decode(encoding, "replace")
    except LookupError:  # the header names an encoding that Python does not know, or nonsense
        return text.decode("utf-8", "replace")


def _time(committer: str) -> datetime:
    """Return the time of a commit with its zone; the epoch where it is not valid."""
    person = _PERSON.match(committer)
    if person is None or person["time"] is None:
        return datetime.fromtimestamp(0, UTC)
    minutes = int(person["zone"][:2]) * 60 + int(person["zone"][2:])
    try:
        offset = timezone(timedelta(minutes=-minutes if person["sign"] == "-" else minutes))
        return datetime.fromtimestamp(int(person["time"]), offset)
    except (ValueError, OverflowError, OSError):  # git stores any number: a zone of 99:99, a year beyond 9999
        return datetime.fromtimestamp(0, UTC)


_KINDS: Final = {b"40000": Entry.FOLDER, b"120000": Entry.LINK, b"160000": Entry.SUBMODULE}
# bytes of an id of SHA-1 and of SHA-256
_SIZES = (20, 32)
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
        self._entries = {fields[1]: fields for fields in _ENTRY[id_bytes].findall(content)}

    def __getitem__(self, name: str) -> TreeEntry:
        return _entry(self._entries[name.encode("utf-8", "surrogateescape")])

    def find(self, name: str) -> TreeEntry | None:
        """Return an entry, None where there is none: builds ask for many."""
        fields = self._entries.get(name.encode("utf-8", "surrogateescape"))
        return _entry(fields) if fields is not None else None

    def __iter__(self) -> Iterator[str]:
        return map(_decoded_name, self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def differing(self, other: TreeObject) -> Iterator[str]:
        """Yield the names that are not the same entry in both."""
        # raw fields are compared: of a folder with thousands of entries, only those that differ are decoded
        for name, fields in self._entries.items():
            if other._entries.get(name) != fields:
                yield _decoded_name(name)
        yield from map(_decoded_name, other._entries.keys() - self._entries.keys())


def _entry(fields: tuple[bytes, bytes, bytes]) -> TreeEntry:
    mode, _, id = fields
    # every other mode is a file: old repositories have 100664, see fsck.badFilemode in git-fsck(1)
    return TreeEntry(_KINDS.get(mode, Entry.FILE), id.hex())


def _decoded_name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")  # Git stores bytes, in whatever encoding the author had
