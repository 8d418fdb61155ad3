"""
Read YAML as Kustomize 5.8 does, within limits, and locate values in the text.

Documents are split before they are parsed, as Kustomize splits them, so anchors end with their document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from gitsync.errors import InvalidInput
from gitsync.render.yaml.block_style import UNREAD, Path, block_lines, read_block
from gitsync.render.yaml.limits import LIMITS, YamlLimits

if TYPE_CHECKING:  # it loads PyYAML
    from gitsync.render.yaml.locations import Node

_SEPARATOR: Final = re.compile(r"\n---(.*)\n")
_LENIENT: Final = YamlLimits(duplicates=True)
_EMPTY: Final[tuple[Any, ...]] = (None, {}, [])


def read_all(text: bytes | str, name: str = "", *, limits: YamlLimits = LIMITS) -> list[Any]:
    """
    Return the documents of a YAML or JSON text as plain values that JSON can hold.

    Documents that are empty, null, ``{}`` or ``[]`` are dropped. Raise InvalidInput, with ``name:line``, for
    whatever cannot be read: the text is refused as a whole.
    """
    pieces = _pieces(_decode(text, name, limits), name)
    documents = (_value(piece, name, first_line, limits) for first_line, piece in pieces)
    return [document for document in documents if document not in _EMPTY]


def locate(text: bytes | str, document: int, path: Sequence[str | int]) -> int:
    """Return the line, from 1, of a value, or of the nearest value around it that the text spells out."""
    lines = locations(text, document)
    parts = tuple(path)
    return next(lines[parts[:end]] for end in range(len(parts), -1, -1) if parts[:end] in lines)


@lru_cache(maxsize=4)  # the places of one document are asked for one after the other
def locations(text: bytes | str, document: int) -> dict[Path, int]:
    """
    Return the line, from 1, of each value of a document that ``read_all`` returned, by its path.

    A member of a mapping stands where its key does. What an alias or a merge key brings in has no line.
    The result is shared: callers must not change it.
    """
    first_line, piece = _kept(text)[document]
    lines = block_lines(piece)
    if lines is None:
        from gitsync.render.yaml.locations import places  # late: it loads PyYAML, which few manifests need

        lines = {place.path: place.line for place in places(piece)}
    return {path: line + first_line for path, line in lines.items()}


def node_at(text: bytes | str, document: int, path: Sequence[str | int]) -> tuple[Node, int]:
    """Return the node at a path of a document, and the line, from 1, on which the document begins; else KeyError."""
    from gitsync.render.yaml.locations import nodes  # late: as above

    first_line, piece = _kept(text)[document]
    return nodes(piece)[tuple(path)], first_line


@lru_cache(maxsize=4)  # and so are those of one file
def _kept(text: bytes | str) -> tuple[tuple[int, str], ...]:
    pieces = _pieces(_decode(text, "", LIMITS), "")
    return tuple((line, piece) for line, piece in pieces if _value(piece, "", line, _LENIENT) not in _EMPTY)


def _value(piece: str, name: str, first_line: int, limits: YamlLimits) -> Any:
    """Return the value of one document."""
    value = read_block(piece, limits)
    if value is not UNREAD:
        return value
    from gitsync.render.yaml.composer import compose  # late: it loads PyYAML, which few manifests need

    return compose(piece, name, first_line, limits)


def _decode(text: bytes | str, name: str, limits: YamlLimits) -> str:
    if len(text) > limits.bytes:
        raise InvalidInput(
            f"the file has {len(text)} bytes, more than the limit of {limits.bytes}", location=name, hint="split it"
        )
    if isinstance(text, bytes):
        if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InvalidInput("the encoding is UTF-16", location=f"{name}:1", hint="save the file as UTF-8")
        return _from_utf8(text, name)
    return text


def _from_utf8(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"byte 0x{data[error.start]:02x} is not UTF-8"
        raise InvalidInput(what, location=f"{name}:{line}", hint="save the file as UTF-8") from error


def _pieces(text: str, name: str) -> Iterator[tuple[int, str]]:
    """Yield each document's text with the number of its first line."""
    # kio.ByteReader does both before it splits.
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    start = 0
    line = 1
    for separator in _SEPARATOR.finditer(text):
        piece = text[start : separator.start() + 1]
        separator_line = line + piece.count("\n")
        after = separator[1].strip()
        # Kustomize would drop such a document without a word.
        if after and not after.startswith("#"):
            raise InvalidInput(
                f"'---{separator[1]}' does not separate documents",
                location=f"{name}:{separator_line}",
                hint="write '---' on a line of its own",
            )
        yield line, piece
        start = separator.end()
        line = separator_line + 1
    yield line, text[start:]


def place(file: str, text: bytes, path: Sequence[str | int], document: int = 0) -> str:
    """Return ``file:line`` of a path in a document, or of what is nearest around it."""
    lines = _lines(text, document)
    parts = tuple(path)
    line = lines.get(parts) or next(
        (lines[parts[:end]] for end in range(len(parts) - 1, -1, -1) if parts[:end] in lines), 0
    )
    return f"{file}:{line}" if line else file


@lru_cache(maxsize=64)
def _lines(text: bytes, document: int) -> dict[tuple[str | int, ...], int]:
    """Return the lines of all fields; a file of thousands of entries is asked for each of them."""
    try:
        return locations(text, document)
    except (InvalidInput, IndexError):
        return {}
