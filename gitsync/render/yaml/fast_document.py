"""
Block style: read the documents whose lines can be understood one by one, which nearly all manifests are.

It is many times faster than the full parser and gives the same values. It decides nothing: of what is unusual, and
of all that is wrong, it says that it cannot read it, and the full parser reads the text from its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from gitsync.render.yaml.fast_line import COPY, DEEPEST, NESTED, SHORT, STRIPPED, Unusual, read_line, short_line
from gitsync.render.yaml.limits import LIMITS, Limits
from gitsync.render.yaml.scalar_types import BlankKey, Quoted

Path: TypeAlias = tuple[str | int, ...]
Mark: TypeAlias = tuple[Any, str | int, int]
"""A collection, a key or an index in it, and its line, counted from 0."""

UNREAD: Final = object()
"""Placeholder of the value of a document that only the full parser can read."""


def read_block(text: str, limits: Limits = LIMITS, marks: list[Mark] | None = None) -> Any:
    """
    Return the value of the one document in a text, None for an empty one, UNREAD where that takes the full parser.

    With ``marks``, add where each value stands, outer ones first.
    """
    lines = text.split("\n")
    if lines[0] == "---":
        lines[0] = ""
    try:
        return _value(lines, limits, marks)
    except Unusual:
        return UNREAD


def block_lines(text: str) -> dict[Path, int] | None:
    """Return the line, from 0, of each value of a document by its path; None where that takes the full parser."""
    marks: list[Mark] = []
    value = read_block(text, LIMITS, marks)
    if value is UNREAD:
        return None
    found: dict[Path, int] = {(): marks[0][2]} if marks else {}
    paths: dict[int, Path] = {id(value): ()}
    for holder, key, line in marks:
        path = (*paths[id(holder)], key)
        found[path] = line
        if isinstance(holder[key], dict | list):
            paths[id(holder[key])] = path
    return found


def _value(lines: list[str], limits: Limits, marks: list[Mark] | None) -> Any:
    styles = limits.styles
    deepest = limits.depth - DEEPEST - 2  # an item and its brackets are further levels
    root: dict[str, Any] = {"": None}
    node: Any = root  # the collection that the line before belongs to, and the column of its members
    column = -1
    around: list[tuple[int, Any]] = []  # the same of each collection around it
    waiting: str | None = ""  # the key on the line before, if the lines below give its value
    for number, line in enumerate(lines):
        read = short_line(line, styles) if len(line) <= SHORT else read_line(line, styles)
        if read is None:
            continue
        indent, inner, key, value, needs = read
        if waiting is not None:
            if indent > column or (inner and indent == column):
                around.append((column, node))
                node[waiting] = node = [] if inner else {}
                column = indent
                if len(around) > deepest:
                    raise Unusual
            elif styles:
                _mark_blank(node, waiting)
            waiting = None
        while indent < column:
            column, node = around.pop()
        if not inner and type(node) is list:  # a list may be at the column of its mapping
            column, node = around.pop()
        if indent != column or (inner and type(node) is not list):
            raise Unusual
        if inner:
            node.append(None)
            if marks is not None:
                marks.append((node, len(node) - 1, number))
            if key is not None:
                around.append((column, node))
                node[-1] = node = {}
                column = inner
        if key is not None:
            if key in node:
                raise Unusual
            if marks is not None:
                marks.append((node, key, number))
        if needs:
            if needs == NESTED:
                waiting = key
            elif needs == COPY:
                value = _copy(value)
                if marks is not None:
                    marks.extend(_marks_inside(value, number))
            else:
                value = _literal(lines, number + 1, column) + ("" if needs == STRIPPED else "\n")
                if styles:
                    value = Quoted(value)
        node[-1 if key is None else key] = value
    if waiting and styles:
        _mark_blank(node, waiting)
    return root[""]


def _mark_blank(node: dict[str, Any], key: str) -> None:
    """Make the last key of a mapping one that says that nothing is behind it."""
    node[BlankKey(key)] = node.pop(key)


def _literal(lines: list[str], first: int, column: int) -> str:
    """Return the text that begins at a line, without its last newlines, and leave empty lines behind."""
    start = first
    while start < len(lines) and not lines[start]:
        start += 1
    if start == len(lines):
        raise Unusual
    width = len(lines[start]) - len(lines[start].lstrip(" "))
    if width <= column or lines[start][width : width + 1] in ("", "\t"):
        raise Unusual
    indent, end = " " * width, start
    while end < len(lines) and (lines[end].startswith(indent) or not lines[end].strip(" ")):
        end += 1
    if end == len(lines) and lines[-1]:  # the text ends without a newline
        raise Unusual
    text = "\n".join(line[width:] for line in lines[first:end]).rstrip("\n")
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise Unusual
    lines[first:end] = [""] * (end - first)
    return text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) if isinstance(item, dict | list) else item for key, item in value.items()}
    return [_copy(item) if isinstance(item, dict | list) else item for item in value]


def _marks_inside(value: Any, line: int) -> Iterator[Mark]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key, line
        if isinstance(item, dict | list):
            yield from _marks_inside(item, line)
