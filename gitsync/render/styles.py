"""
Styles: scalars that remember how they were written, because Kustomize keeps a field's style when it is set.

They are texts and numbers like any other. A number with a spelling of its own (``0755``, ``1.10``) has it for
where a number becomes a text; ``plain`` takes it off before a manifest leaves the build.
"""

from __future__ import annotations

from typing import Any


class Quoted(str):
    """A text that was written in quotes."""

    __slots__ = ()


class SpelledInt(int):
    """A whole number with the text it was written as."""

    text: str


class SpelledFloat(float):
    """A number with the text it was written as."""

    text: str


def spelled(value: Any, text: str) -> Any:
    """Return a number that remembers its text, where it is not the usual one; anything else as it is."""
    if type(value) is int and str(value) != text:
        whole = SpelledInt(value)
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
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.text if isinstance(value, SpelledInt | SpelledFloat) else str(value)


def has_spelling(value: Any) -> bool:
    """Return whether a number in a value has a spelling that only a build understands."""
    items = value.values() if isinstance(value, dict) else value
    return any(has_spelling(item) if isinstance(item, dict | list) else type(item) in _SPELLED for item in items)


def plain(value: Any) -> Any:
    """Return the value with numbers that are only numbers."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, SpelledFloat):
        return float(value)
    return int(value) if isinstance(value, SpelledInt) else value


_SPELLED = (SpelledInt, SpelledFloat)
