"""
Block style: read the documents whose lines can be understood one by one, which nearly all manifests are.

It is many times faster than the full parser and gives the same values. It decides nothing: of what is unusual, and
of all that is wrong, it says that it cannot read it, and the full parser reads the text from its start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gitsync.render.yaml.limits import LIMITS, YamlLimits
from gitsync.render.yaml.scalar_types import FlowKey, NullKey, Quoted, spelled
from gitsync.render.yaml.scalars import UNSURE, resolve


class _Unusual(Exception):
    """Only the full parser can say what a line means, or what is wrong with it."""


_Line: TypeAlias = tuple[int, int, str | None, Any, int]
"""
What ``- key: value`` says.

Where the dash stands, or the key where there is none; where what follows the dash stands, 0 without a dash; the key,
None for an item that is a plain value; the value; and what it needs: nothing, or one of _NESTED, _COPY, _LITERAL and
_STRIPPED.
"""
_NESTED: Final = 1
"""The lines below give the value, or it is null."""
_COPY: Final = 2
"""The value is a list or a mapping, and must be copied because it is remembered."""
_LITERAL: Final = 3
"""The lines below are a text that ends in a newline."""
_STRIPPED: Final = 4
"""The lines below are a text that does not."""

_HEADERS: Final = {"|": _LITERAL, "|-": _STRIPPED}
_KEY: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./$"
_SHORT: Final = 128
_LONGEST_KEY: Final = 500
_NOT_PLAIN: Final = frozenset("!&*|>%@`,[]{}?:#\"'")
"""What no plain value begins with, or what only looks like the beginning of one."""
_TOKEN: Final = re.compile(r"""[][{},]|"[^"\\]*"|'[^']*'|[^][{},"'&*!|>%@`#\\]+""")
"""The parts of a list or mapping in brackets, unless it is unusual."""
_NOT_INSIDE: Final = frozenset(("", "-", ",", "]", "}"))
_DEEPEST: Final = 8
"""How deep brackets may be nested."""


@lru_cache(maxsize=8192)
def _short_line(line: str, styles: bool) -> _Line | None:
    """Return what ``_read_line`` returns, and remember it; only for lines of at most _SHORT characters."""
    return _read_line(line, styles)


def _read_line(line: str, styles: bool) -> _Line | None:
    """Return what a line says; None for nothing at all. With ``styles``, values remember how they were written."""
    content = line.lstrip(" ")
    if not content.isprintable():  # a tab, a character that YAML forbids or one that ends a line
        raise _Unusual
    if not content or content[0] == "#":
        return None
    column = len(line) - len(content)
    inner = 0
    if content.startswith("- "):
        content = content[2:].lstrip(" ")
        inner = len(line) - len(content)
    key, text = _split(content, inner > 0)
    text = text.strip(" ")
    if not text or text[0] == "#":
        if key is None:
            raise _Unusual
        return column, inner, key, None, _NESTED
    first = text[0]
    if first == "[" or first == "{":
        return column, inner, key, _brackets(text, styles), _COPY
    if text in _HEADERS:
        return column, inner, key, None, _HEADERS[text]
    return column, inner, key, _scalar(text, styles), 0


def _split(content: str, is_item: bool) -> tuple[str | None, str]:
    """Return the key and the text of its value; an item may have no key."""
    first = content[:1]
    if first == '"' or first == "'":
        end = content.find(first, 1)
        after = content[end + 1 : end + 3]
        if end > 0 and (after == ":" or after == ": ") and "\\" not in content[:end] and end < _LONGEST_KEY:
            return content[1:end], content[end + 2 :]
    elif first != "{" and first != "[":
        key, colon, text = content.partition(": ")
        if colon or key.endswith(":"):
            return _key(key if colon else key[:-1]), text
    if not is_item:
        raise _Unusual
    return None, content


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    """Return a key without quotes, if it is a text in any case."""
    if not key or key.strip(_KEY) or key[0] == "-" or len(key) > _LONGEST_KEY or type(_plain(key, False)) is not str:
        raise _Unusual
    return key


def _scalar(text: str, styles: bool) -> Any:
    first = text[0]
    if first == '"' or first == "'":
        return _quoted(text, styles)
    if first in _NOT_PLAIN or text == "-" or text.startswith("- "):
        raise _Unusual
    plain, comment, _ = text.partition(" #")
    if comment:
        plain = plain.rstrip(" ")
    if ": " in plain or plain[-1] == ":":
        raise _Unusual
    return _plain(plain, styles)


def _plain(text: str, styles: bool) -> Any:
    if text[0] not in UNSURE:
        return text
    try:
        value = resolve(text)
    except ValueError:
        raise _Unusual from None
    if value is None and text != "null" and styles:
        raise _Unusual  # its key has to remember the text
    return spelled(value, text) if styles else value


def _quoted(text: str, styles: bool) -> str:
    """Return the text in quotes, without escapes; behind it there may be a comment."""
    quote = text[0]
    value, end, comment = text[1:].partition(quote)
    if not end or (comment and not comment.lstrip(" ").startswith("#")) or comment[:1] == "#":
        raise _Unusual
    if quote == '"' and "\\" in value:
        raise _Unusual
    return Quoted(value) if styles else value


def _brackets(text: str, styles: bool) -> list[Any] | dict[str, Any]:
    """Return a list or mapping in brackets that ends on its line."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise _Unusual
    tokens.append("")  # which no value and no bracket is
    waiting = [token for token in reversed(tokens) if not token.isspace()]
    value = _list(waiting, _DEEPEST, styles) if waiting.pop() == "[" else _mapping(waiting, _DEEPEST, styles)
    if waiting != [""]:
        raise _Unusual
    return value


def _list(tokens: list[str], depth: int, styles: bool) -> list[Any]:
    """Return the list whose opening bracket was popped last; ``tokens`` is in reverse order."""
    items: list[Any] = []
    separator = tokens.pop() if tokens[-1] == "]" else ","
    while separator == ",":
        items.append(_inside(tokens.pop(), tokens, depth, styles))
        separator = tokens.pop()
    if separator != "]":
        raise _Unusual
    return items


def _mapping(tokens: list[str], depth: int, styles: bool) -> dict[str, Any]:
    """Return the mapping whose opening brace was popped last; ``tokens`` is in reverse order."""
    members: dict[str, Any] = {}
    separator = tokens.pop() if tokens[-1] == "}" else ","
    while separator == ",":
        name, colon, rest = tokens.pop().partition(": ")
        key = _key(name.lstrip(" "))
        if not colon or key in members:
            raise _Unusual
        if styles and not members:
            key = FlowKey(key)
        members[key] = _inside(tokens.pop() if not rest or rest.isspace() else rest, tokens, depth, styles)
        separator = tokens.pop()
    if separator != "}":
        raise _Unusual
    return members


def _inside(token: str, tokens: list[str], depth: int, styles: bool) -> Any:
    """Return the value that begins with a token inside brackets."""
    first = token[:1]
    if first == "[" or first == "{":
        if depth == 1:
            raise _Unusual
        return (_list if first == "[" else _mapping)(tokens, depth - 1, styles)
    if first == '"' or first == "'":
        return Quoted(token[1:-1]) if styles else token[1:-1]
    plain = token.strip(" ")
    if plain in _NOT_INSIDE or plain[0] in "?:" or plain.startswith("- "):
        raise _Unusual
    if ":" not in plain:
        return _plain(plain, styles)
    if plain[-1] == ":" or ": " in plain or ":?" in plain:
        raise _Unusual
    return plain


Path: TypeAlias = tuple[str | int, ...]
Mark: TypeAlias = tuple[Any, str | int, int]
"""A collection, a key or an index in it, and its line, counted from 0."""

UNREAD: Final = object()
"""Placeholder of the value of a document that only the full parser can read."""


def read_block(text: str, limits: YamlLimits = LIMITS, marks: list[Mark] | None = None) -> Any:
    """
    Return the value of the one document in a text, None for an empty one, UNREAD where that takes the full parser.

    With ``marks``, add where each value stands, outer ones first.
    """
    lines = text.split("\n")
    # A first separator begins no document of its own.
    if lines[0] == "---":
        lines[0] = ""
    try:
        return _value(lines, limits, marks)
    except _Unusual:
        return UNREAD


def block_lines(text: str) -> dict[Path, int] | None:
    """Return the line, from 0, of each value of a document by its path; None where that takes the full parser."""
    marks: list[Mark] = []
    value = read_block(text, LIMITS, marks)
    if value is UNREAD:
        return None
    lines: dict[Path, int] = {(): marks[0][2]} if marks else {}
    paths: dict[int, Path] = {id(value): ()}
    for holder, key, line in marks:
        path = (*paths[id(holder)], key)
        lines[path] = line
        if isinstance(holder[key], dict | list):
            paths[id(holder[key])] = path
    return lines


def _value(lines: list[str], limits: YamlLimits, marks: list[Mark] | None) -> Any:
    styles = limits.styles
    deepest = limits.depth - _DEEPEST - 2  # an item and its brackets are further levels
    root: dict[str, Any] = {"": None}
    node: Any = root  # the collection that the line before belongs to, and the column of its members
    column = -1
    around: list[tuple[int, Any]] = []  # the same of each collection around it
    waiting: str | None = ""  # the key on the line before, if the lines below give its value
    for number, line in enumerate(lines):
        read = _short_line(line, styles) if len(line) <= _SHORT else _read_line(line, styles)
        if read is None:
            continue
        indent, inner, key, value, needs = read
        if waiting is not None:
            if indent > column or (inner and indent == column):
                around.append((column, node))
                node[waiting] = node = [] if inner else {}
                column = indent
                if len(around) > deepest:
                    raise _Unusual
            elif styles:
                _mark_blank(node, waiting)
            waiting = None
        while indent < column:
            column, node = around.pop()
        if not inner and type(node) is list:  # a list may be at the column of its mapping
            column, node = around.pop()
        if indent != column or (inner and type(node) is not list):
            raise _Unusual
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
                raise _Unusual
            if marks is not None:
                marks.append((node, key, number))
        if needs:
            if needs == _NESTED:
                waiting = key
            elif needs == _COPY:
                value = _copy(value)
                if marks is not None:
                    marks.extend(_marks_inside(value, number))
            else:
                value = _literal(lines, number + 1, column) + ("" if needs == _STRIPPED else "\n")
                if styles:
                    value = Quoted(value)
        node[-1 if key is None else key] = value
    if waiting and styles:
        _mark_blank(node, waiting)
    return root[""]


def _mark_blank(node: dict[str, Any], key: str) -> None:
    """Make the last key of a mapping one that says that nothing is behind it."""
    node[NullKey(key)] = node.pop(key)


def _literal(lines: list[str], first: int, column: int) -> str:
    """Return the text that begins at a line, without its last newlines, and leave empty lines behind."""
    start = first
    while start < len(lines) and not lines[start]:
        start += 1
    if start == len(lines):
        raise _Unusual
    width = len(lines[start]) - len(lines[start].lstrip(" "))
    if width <= column or lines[start][width : width + 1] in ("", "\t"):
        raise _Unusual
    indent = " " * width
    end = start
    while end < len(lines) and (lines[end].startswith(indent) or not lines[end].strip(" ")):
        end += 1
    if end == len(lines) and lines[-1]:  # the text ends without a newline
        raise _Unusual
    text = "\n".join(line[width:] for line in lines[first:end]).rstrip("\n")
    if not text.replace("\n", "").replace("\t", "").isprintable():
        raise _Unusual
    # The loop over the lines then passes over them.
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
