"""The versions of a text that a file in Git consists of, or holds in one of its YAML documents. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import at, metadata_of
from gitsync.objects.record import Commit
from gitsync.ports import FileVersion
from gitsync.render.yaml.limits import LIMITS
from gitsync.render.yaml.reader import read_all

_LIMITS = LIMITS._replace(bytes=64 << 10, aliases=64 << 10)
_Path = tuple[str | int, ...]
_Reader = Callable[[bytes], str | None]


@dataclass(frozen=True, slots=True)
class TextVersion:
    """A text, and the commit that wrote it."""

    commit: Commit
    text: str


def text_versions(files: Sequence[FileVersion], text: str) -> tuple[TextVersion, ...]:
    """
    Return the versions of a text, newest first, from the versions of its file, of which the newest holds it.

    Of a YAML file the document with the same kind and name is read in each version, at the same path. Empty where the
    newest version neither is nor holds the text; commits that changed only other parts of the file are left out.
    """
    read = _reader(files[0].content, text) if files else None
    found = [TextVersion(one.commit, known) for one in files if read is not None and (known := read(one.content))]
    older = [one.text for one in found[1:]]
    return tuple(one for one, before in zip_longest(found, older) if one.text != before)


def _reader(content: bytes, text: str) -> _Reader | None:
    """Return how to read the text from its file, None where the file has it in no way that is known."""
    if _whole(content) == text:
        return _whole
    places = [place for place in _texts(content) if place[2] == text]
    if not places:
        return None
    document, path, _ = places[0]
    return lambda other: next(
        (found for name, where, found in _texts(other) if (name, where) == (document, path)), None
    )


def _whole(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _texts(content: bytes) -> Iterator[tuple[tuple[str, str], _Path, str]]:
    """Yield the texts of a YAML file: the kind and name of their document, their path in it, and their value."""
    try:
        documents = read_all(content, limits=_LIMITS)
    except InvalidInput:
        return
    for document in documents:
        is_object = isinstance(document, dict)
        name = (str(document.get("kind")), str(at(metadata_of(document), "name"))) if is_object else ("", "")
        yield from ((name, path, text) for path, text in _leaves(document, ()))


def _leaves(value: Any, path: _Path) -> Iterator[tuple[_Path, str]]:
    members: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = ((_key(item, index), item) for index, item in enumerate(value))
    for key, member in members:
        yield from _leaves(member, (*path, key))


def _key(item: Any, index: int) -> str | int:
    """Return the name of an item where it has one: others may be added before it."""
    name = item.get("name") if isinstance(item, dict) else None
    return f"name={name}" if isinstance(name, str) else index
