"""
Values in the text of a YAML file: where they are written, and how a new one is written in their place.

An edit replaces the characters of one value. Its style, quotes and comments stay, and every other byte does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.yaml.locations import Node, Path, nodes
from gitsync.render.yaml.reader import read_all

_SEPARATOR: Final = re.compile(r"\n---([^\n]*)\n")
_BLOCKS: Final = ("|", ">")
_UNCLEAR: Final = ("", " ", "\n")
"""The first characters of texts of which a block would have to name its indentation, in columns from its parent."""
_PRINTABLE: Final = re.compile(r"[\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]*")
"""Texts that single quotes and blocks can hold on one line."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A scalar in a file: its characters, how they are written, and the anchor that repeats it in other places."""

    start: int
    end: int
    style: str
    value: str
    in_flow: bool
    indent: str
    """What precedes the lines of a block."""
    shared_by: str = ""
    """The anchor that other places of the document repeat this value by."""
    is_alias: bool = False


def spots_at(text: str, line: int) -> list[Spot]:
    """Return the scalars of a text that begin on a line, from 1, or whose key does; also inside texts in blocks."""
    return [spot for start, first_line, piece in _documents(text) for spot in _spots(start, piece, line - first_line)]


def _documents(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield each document with its first character in the text, and its first line, from 1."""
    start = 1 if text.startswith("\ufeff") else 0
    for separator in _SEPARATOR.finditer(text):
        yield start, text.count("\n", 0, start) + 1, text[start : separator.start() + 1]
        start = separator.end()
    yield start, text.count("\n", 0, start) + 1, text[start:]


def _spots(start: int, piece: str, line: int) -> Iterator[Spot]:
    if not 0 <= line <= piece.count("\n"):
        return
    known = _nodes(piece)
    # Anchors end with their document, and so does the search for aliases.
    repeated = {node.value for node in known.values() if node.style == "*"}
    for node in known.values():
        if node.style not in ("", "'", '"', "*", *_BLOCKS):
            continue
        if line in (node.line, node.line_of_text):
            yield _spot(start, piece, node, known, repeated)
        # Only literal blocks: the lines of a folded one are not those of its text.
        elif node.style == "|" and node.line_of_text < line <= piece.count("\n", 0, node.end):
            yield from _inside(piece, start, node, line)


def _spot(start: int, piece: str, node: Node, known: Mapping[Path, Node], repeated: Collection[str]) -> Spot:
    anchors = (known[node.path[:depth]].anchor for depth in range(len(node.path) + 1) if node.path[:depth] in known)
    return Spot(
        start + node.start,
        start + node.end,
        node.style,
        node.value,
        node.in_flow,
        _block_indent(piece, node),
        next((anchor for anchor in anchors if anchor in repeated), ""),
        node.style == "*",
    )


class PlacedSpot(NamedTuple):
    """A scalar of a file with its path in the first document, and its line, from 1."""

    path: Path
    line: int
    spot: Spot


def spots_below(text: str, path: Path) -> Iterator[PlacedSpot]:
    """Yield the scalars at and below a path of the first document, which has the values of a chart; none of no YAML."""
    start, first_line, piece = next(_documents(text))
    known = _nodes(piece)
    repeated = {node.value for node in known.values() if node.style == "*"}
    for node in known.values():
        if node.path[: len(path)] == path and node.style in ("", "'", '"', *_BLOCKS):
            yield PlacedSpot(node.path, first_line + node.line, _spot(start, piece, node, known, repeated))


def with_value(text: str, path: Path, value: str, *, is_text: bool) -> tuple[str, int] | None:
    """
    Return the text with a value at a path that it lacks, in the deepest mapping on the way, and the line of the change.

    None where that is not a mapping, or holds the value already; lists get no items: in the values of a chart a list
    replaces the one below it.
    """
    known = _nodes(text)
    depth = next((length for length in range(len(path), -1, -1) if path[:length] in known), 0)
    missing = path[depth:]
    if not missing or not all(isinstance(step, str) for step in missing):
        return None
    written = value if not is_text or is_plain(value) else json.dumps(value, ensure_ascii=False)
    holder = known.get(path[:depth])
    if holder is None or (not depth and holder.style == "" and not holder.value):
        separator = "" if text.endswith("\n") or not text else "\n"
        return text + separator + _nested(missing, written, 0), text.count("\n") + len(separator) + 1
    if holder.style == "{":
        # JSON is YAML on a single line
        inside = text[holder.start + 1 : holder.end - 1].rstrip()
        comma = ", " if inside.strip() else ""
        closing = "}" * (len(missing) - 1)
        entry = ": {".join(json.dumps(step) for step in missing)
        quoted = json.dumps(value, ensure_ascii=False) if is_text else value
        content = f"{text[: holder.start + 1]}{inside}{comma}{entry}: {quoted}{closing}{text[holder.end - 1 :]}"
        return content, text.count("\n", 0, holder.start) + 1
    if holder.style != ":":
        return None
    members = [node for node in known.values() if node.path[: len(path[:depth])] == path[:depth] and node != holder]
    column = next(node.column for node in members if len(node.path) == depth + 1)
    # a block collection ends later than its text
    end = max(node.end for node in members if node.style not in (":", "-"))
    line_end = end if text[end - 1 : end] == "\n" else text.find("\n", end) + 1 or len(text)
    separator = "" if text[:line_end].endswith("\n") else "\n"
    content = text[:line_end] + separator + _nested(missing, written, column) + text[line_end:]
    return content, text.count("\n", 0, line_end) + len(separator) + 1


def _nested(steps: Path, written: str, column: int) -> str:
    """Return the lines of a value below keys that are mappings of each other."""
    keys = [str(step) if is_plain(str(step)) else json.dumps(step) for step in steps]
    lines = [f"{' ' * (column + 2 * depth)}{key}:" for depth, key in enumerate(keys)]
    return "\n".join(lines) + f" {written}\n"


def _nodes(text: str) -> Mapping[Path, Node]:
    """Return the values of a text by their paths, none of a text that is not YAML."""
    try:
        return nodes(text)
    except Exception as error:
        if type(error).__module__.startswith("yaml"):
            return {}
        raise


def _block_indent(piece: str, node: Node) -> str:
    """Return the spaces before the lines of a block, or those that a block in its place would have."""
    if node.style in _BLOCKS:
        lines = piece[node.start : node.end].split("\n")[1:]
        return next((line[: len(line) - len(line.lstrip(" "))] for line in lines if line.strip()), "")
    return " " * (node.column + 2)


def _inside(piece: str, start: int, block: Node, line: int) -> Iterator[Spot]:
    """Yield the scalars on a line of a text that a literal block holds, such as an inline patch."""
    indent = len(_block_indent(piece, block))
    lines = piece.split("\n")
    first = block.line_of_text + 1
    inner = "\n".join(content[indent:] for content in lines[first : piece.count("\n", 0, block.end) + 1])
    starts = [0]
    for content in lines:
        starts.append(starts[-1] + len(content) + 1)
    for spot in spots_at(inner, line - first + 1):
        inner_line = inner.count("\n", 0, spot.start)
        if "\n" in inner[spot.start : spot.end]:
            continue  # its lines would have to be indented twice
        column = spot.start - (inner.rfind("\n", 0, spot.start) + 1)
        outer = start + starts[first + inner_line] + indent + column
        yield Spot(outer, outer + spot.end - spot.start, spot.style, spot.value, spot.in_flow, "", spot.shared_by)


def replaced(text: str, spot: Spot, value: str, *, is_text: bool) -> str:
    """Return the text with another value in a spot; ``is_text`` tells whether YAML has to read it as a text."""
    return text[: spot.start] + _written(spot, value, is_text=is_text) + text[spot.end :]


def _written(spot: Spot, value: str, *, is_text: bool) -> str:
    if spot.style in _BLOCKS:
        is_block = spot.indent and value[:1] not in _UNCLEAR and all(map(_PRINTABLE.fullmatch, value.split("\n")))
        return _block(value, spot.indent) if is_block else json.dumps(value, ensure_ascii=False) + "\n"
    if not is_text:
        return value
    # JSON's escapes are those of double quotes in YAML.
    if spot.style == '"' or not _PRINTABLE.fullmatch(value):
        return json.dumps(value, ensure_ascii=False)
    if spot.style == "'" or not is_plain(value, in_flow=spot.in_flow):
        return "'" + value.replace("'", "''") + "'"
    return value


def _block(value: str, indent: str) -> str:
    body = value.rstrip("\n")
    breaks = len(value) - len(body)
    chomp = "-" if not breaks else "" if breaks == 1 and body else "+"
    # Without spaces on empty lines, as editors and linters want them.
    lines = (f"{indent}{line}" if line else "" for line in body.split("\n"))
    return f"|{chomp}\n" + "\n".join(lines) + "\n" * max(breaks, 1)


def is_plain(value: str, *, in_flow: bool = False) -> bool:
    """Return whether YAML reads a text without quotes as this text, in a list in brackets or behind a key."""
    try:
        documents = read_all(f"[{value}]" if in_flow else f"- {value}\n")
    except InvalidInput:
        return False
    items = documents[0] if len(documents) == 1 else None
    # words that older readers take for true or false are texts of a type of their own
    return isinstance(items, list) and items == [value] and type(items[0]) is str
