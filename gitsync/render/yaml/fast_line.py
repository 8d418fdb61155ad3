"""
Lines: what one line of block-style YAML says by itself, for the lines that nearly all manifests consist of.

Whatever takes more than its own line to be understood, or is not understood here, is Unusual: the full parser decides.
Manifests repeat themselves, so what a line says is remembered.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, TypeAlias

from gitsync.render.yaml.scalar_types import Quoted, spelled
from gitsync.render.yaml.scalars import UNSURE, resolve


class Unusual(Exception):
    """Only the full parser can say what a line means, or what is wrong with it."""


Line: TypeAlias = tuple[int, int, str | None, Any, int]
"""
What ``- key: value`` says.

Where the dash stands, or the key where there is none; where what follows the dash stands, 0 without a dash; the key,
None for an item that is a plain value; the value; and what it needs: nothing, or one of NESTED, COPY, LITERAL and
STRIPPED.
"""
NESTED: Final = 1
"""The lines below give the value, or it is null."""
COPY: Final = 2
"""The value is a list or a mapping, and must be copied because it is remembered."""
LITERAL: Final = 3
"""The lines below are a text that ends in a newline."""
STRIPPED: Final = 4
"""The lines below are a text that does not."""

_HEADERS: Final = {"|": LITERAL, "|-": STRIPPED}
_KEY: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./$"
SHORT: Final = 128
_LONGEST_KEY: Final = 500
_NOT_PLAIN: Final = frozenset("!&*|>%@`,[]{}?:#\"'")
"""What no plain value begins with, or what only looks like the beginning of one."""
_TOKEN: Final = re.compile(r"""[][{},]|"[^"\\]*"|'[^']*'|[^][{},"'&*!|>%@`#\\]+""")
"""The parts of a list or mapping in brackets, unless it is unusual."""
_NOT_INSIDE: Final = frozenset(("", "-", ",", "]", "}"))
DEEPEST: Final = 8
"""How deep brackets may be nested."""


@lru_cache(maxsize=8192)
def short_line(line: str, styles: bool) -> Line | None:
    """Return what ``read_line`` returns, and remember it; only for lines of at most SHORT characters."""
    return read_line(line, styles)


def read_line(line: str, styles: bool) -> Line | None:
    """Return what a line says; None for nothing at all. With ``styles``, values remember how they were written."""
    content = line.lstrip(" ")
    if not content.isprintable():  # a tab, a character that YAML forbids or one that ends a line
        raise Unusual
    if not content or content[0] == "#":
        return None
    column, inner = len(line) - len(content), 0
    if content.startswith("- "):
        content = content[2:].lstrip(" ")
        inner = len(line) - len(content)
    key, text = _split(content, inner > 0)
    text = text.strip(" ")
    if not text or text[0] == "#":
        if key is None:
            raise Unusual
        return column, inner, key, None, NESTED
    first = text[0]
    if first == "[" or first == "{":
        return column, inner, key, _brackets(text, styles), COPY
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
        raise Unusual
    return None, content


@lru_cache(maxsize=1024)
def _key(key: str) -> str:
    """Return a key without quotes, if it is a text in any case."""
    if not key or key.strip(_KEY) or key[0] == "-" or len(key) > _LONGEST_KEY or type(_plain(key, False)) is not str:
        raise Unusual
    return key


def _scalar(text: str, styles: bool) -> Any:
    first = text[0]
    if first == '"' or first == "'":
        return _quoted(text, styles)
    if first in _NOT_PLAIN or text == "-" or text.startswith("- "):
        raise Unusual
    plain, comment, _ = text.partition(" #")
    if comment:
        plain = plain.rstrip(" ")
    if ": " in plain or plain[-1] == ":":
        raise Unusual
    return _plain(plain, styles)


def _plain(text: str, styles: bool) -> Any:
    if text[0] not in UNSURE:
        return text
    try:
        value = resolve(text)
    except ValueError:
        raise Unusual from None
    return spelled(value, text) if styles else value


def _quoted(text: str, styles: bool) -> str:
    """Return the text in quotes, without escapes; behind it there may be a comment."""
    quote = text[0]
    value, end, comment = text[1:].partition(quote)
    if not end or (comment and not comment.lstrip(" ").startswith("#")) or comment[:1] == "#":
        raise Unusual
    if quote == '"' and "\\" in value:
        raise Unusual
    return Quoted(value) if styles else value


def _brackets(text: str, styles: bool) -> list[Any] | dict[str, Any]:
    """Return a list or mapping in brackets that ends on its line."""
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != text:
        raise Unusual
    tokens.append("")  # which no value and no bracket is
    waiting = [token for token in reversed(tokens) if not token.isspace()]
    value = _list(waiting, DEEPEST, styles) if waiting.pop() == "[" else _mapping(waiting, DEEPEST, styles)
    if waiting != [""]:
        raise Unusual
    return value


def _list(tokens: list[str], depth: int, styles: bool) -> list[Any]:
    """Return the list whose opening bracket was popped last; ``tokens`` is in reverse order."""
    items: list[Any] = []
    separator = tokens.pop() if tokens[-1] == "]" else ","
    while separator == ",":
        items.append(_inside(tokens.pop(), tokens, depth, styles))
        separator = tokens.pop()
    if separator != "]":
        raise Unusual
    return items


def _mapping(tokens: list[str], depth: int, styles: bool) -> dict[str, Any]:
    """Return the mapping whose opening brace was popped last; ``tokens`` is in reverse order."""
    members: dict[str, Any] = {}
    separator = tokens.pop() if tokens[-1] == "}" else ","
    while separator == ",":
        name, colon, rest = tokens.pop().partition(": ")
        key = _key(name.lstrip(" "))
        if not colon or key in members:
            raise Unusual
        members[key] = _inside(tokens.pop() if not rest or rest.isspace() else rest, tokens, depth, styles)
        separator = tokens.pop()
    if separator != "}":
        raise Unusual
    return members


def _inside(token: str, tokens: list[str], depth: int, styles: bool) -> Any:
    """Return the value that begins with a token inside brackets."""
    first = token[:1]
    if first == "[" or first == "{":
        if depth == 1:
            raise Unusual
        return (_list if first == "[" else _mapping)(tokens, depth - 1, styles)
    if first == '"' or first == "'":
        return Quoted(token[1:-1]) if styles else token[1:-1]
    plain = token.strip(" ")
    if plain in _NOT_INSIDE or plain[0] in "?:" or plain.startswith("- "):
        raise Unusual
    if ":" not in plain:
        return _plain(plain, styles)
    if plain[-1] == ":" or ": " in plain or ":?" in plain:
        raise Unusual
    return plain
