"""
Lines: what one line of block-style YAML says by itself, for the lines that nearly all manifests consist of.

Whatever takes more than its own line to be understood, or is not understood here, is Unusual: the full parser decides.
Manifests repeat themselves, so what a line says is remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, TypeAlias

from gitsync.errors import InvalidInput
from gitsync.render.styles import Quoted, spelled
from gitsync.render.yaml_limits import Limits
from gitsync.render.yaml_scalars import UNSURE, resolve


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
_NOT_FLAT: Final = frozenset("[]{}&*!|>%@`#\\?")
"""What a list or mapping of plain and quoted values on one line does without."""


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
    if text in _HEADERS:
        return column, inner, key, None, _HEADERS[text]
    value = _value(text, styles)
    return column, inner, key, value, COPY if isinstance(value, list | dict) else 0


def _split(content: str, is_item: bool) -> tuple[str | None, str]:
    """Return the key and the text of its value; an item can do without a key."""
    first = content[:1]
    if first == '"' or first == "'":
        end = content.find(first, 1)
        after = content[end + 1 : end + 3]
        if end > 0 and (after == ":" or after == ": ") and "\\" not in content[:end] and end < _LONGEST_KEY:
            return content[1:end], content[end + 2 :]
    elif first not in ("{", "["):
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


def _value(text: str, styles: bool) -> Any:
    first = text[0]
    if first == '"' or first == "'":
        end = text.find(first, 1)
        if end == len(text) - 1 and end > 0 and (first == "'" or "\\" not in text):
            return Quoted(text[1:-1]) if styles else text[1:-1]
        return _parsed(text, styles, str)
    if first == "[" or first == "{":
        value = _flat(text, styles)
        return _parsed(text, styles, list if first == "[" else dict) if value is None else value
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


def _flat(text: str, styles: bool) -> list[Any] | dict[str, Any] | None:
    """Return the list or mapping of a text in brackets, if it holds plain values alone and nothing odd; else None."""
    inside = text[1:-1].strip(" ")
    if text[-1] != ("]" if text[0] == "[" else "}") or not _NOT_FLAT.isdisjoint(inside):
        return None
    parts = [part.strip(" ") for part in inside.split(",")] if inside else []
    if text[0] == "[":
        items = [_flat_value(part, styles) for part in parts]
        return None if any(item is None for item in items) else items
    members: dict[str, Any] = {}
    for part in parts:
        key, colon, value = part.partition(": ")
        found = _flat_value(value.strip(" "), styles) if colon and not key.strip(_KEY) else None
        if found is None or key in members:
            return None
        members[_key(key)] = found
    return members


def _flat_value(text: str, styles: bool) -> Any:
    """Return a plain or quoted value inside brackets; None where it is null or odd."""
    first = text[:1]
    if first == '"' or first == "'":
        is_whole = text.find(first, 1) == len(text) - 1
        return (Quoted(text[1:-1]) if styles else text[1:-1]) if is_whole else None
    if not text or text == "-" or text.startswith("- ") or ":" in text or '"' in text or "'" in text:
        return None
    return _plain(text, styles)


def _parsed(text: str, styles: bool, kind: type) -> Any:
    """Return the value of a text on one line that the full parser understands by itself."""
    from gitsync.render.yaml_composer import compose  # late: it loads PyYAML, which few manifests need

    limits = Limits(depth=Limits().depth // 2, styles=styles)  # the lines around have the other half
    try:
        (value,) = compose("- " + text, "", 1, limits)
    except InvalidInput:
        raise Unusual from None
    if not isinstance(value, kind):
        raise Unusual
    return value
