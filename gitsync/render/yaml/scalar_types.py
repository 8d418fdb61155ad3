"""
Scalars that remember how they were written, because Kustomize keeps a field's style when it is set.

They are texts and numbers like any other. A number with a spelling of its own (``0755``, ``1.10``) has it for
where a number becomes a text; ``plain`` takes all that off before a manifest leaves the build.
"""

from __future__ import annotations

from typing import Any, Final

from gitsync.render.yaml.scalars import Date


class Quoted(str):
    """A text that was written in quotes, or as a block."""

    __slots__ = ()


class BlankKey(str):
    """A key with nothing behind it: a strategic merge drops such a member, and keeps one that is written ``null``."""

    __slots__ = ()


class SourceInt(int):
    """A whole number with the text it was written as."""

    text: str


class SpelledFloat(float):
    """A number with the text it was written as."""

    text: str


def spelled(value: Any, text: str) -> Any:
    """Return a number that remembers its text, where it is not the usual one; anything else as it is."""
    if type(value) is int and str(value) != text:
        whole = SourceInt(value)
        whole.text = text
        return whole
    if type(value) is float and repr(value) != text:
        number = SpelledFloat(value)
        number.text = text
        return number
    return value


def styled(new: Any, old: Any) -> Any:
    """Return the new value of a field in the style of its old one: what was quoted stays a text."""
    if isinstance(old, Quoted):
        return new if isinstance(new, Quoted) else Quoted(text_of(new))
    return str(new) if isinstance(new, Quoted) else new


def text_of(value: Any) -> str:
    """Return the text of a scalar as YAML would show it; None and collections are empty."""
    if type(value) is str:  # nearly all are
        return value
    if isinstance(value, str):
        return value.written if isinstance(value, Date) else str(value)
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, SourceInt | SpelledFloat) else str(value)


def is_plain(value: Any) -> bool:
    """Return whether nothing in a collection remembers how it was written."""
    if type(value) is dict and BlankKey in map(type, value):
        return False
    for item in value.values() if type(value) is dict else value:
        kind = type(item)
        if kind is dict or kind is list:
            if not is_plain(item):
                return False
        elif kind in _STYLED:
            return False
    return True


def plain(value: Any) -> Any:
    """Return a copy of the value whose texts and numbers are nothing else."""
    kind = type(value)
    if kind is dict:
        return {str(key) if type(key) is BlankKey else key: plain(item) for key, item in value.items()}
    if kind is list:
        return [plain(item) for item in value]
    if kind is Quoted:
        return str(value)
    if kind is SpelledFloat:
        return float(value)
    return int(value) if kind is SourceInt else value


_STYLED: Final = frozenset({Quoted, SourceInt, SpelledFloat})
