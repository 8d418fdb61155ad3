"""
Scalars that remember how they were written, because Kustomize keeps a field's text and style until it writes it.

They are texts and numbers like any other. A number with a spelling of its own (``0755``, ``1.10``) has it for
where a number becomes a text; ``plain`` takes all that off before a manifest leaves the build.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from gitsync.render.yaml.scalars import Date, Yaml11Bool, is_integer, resolve


class Quoted(str):
    """A text that was written in quotes, or as a block."""

    __slots__ = ()


class Folded(Quoted):
    """A text that was written as a folded block (``>``), which go-yaml v3 changes once it writes it."""

    __slots__ = ()


class Untagged(str):
    """A text whose tag is lost: a replacement that sets another text there may make it a number or the like."""

    __slots__ = ()


class Untyped(Untagged):
    """An untagged text that is a number or the like once it is written, unless a strategic merge passes it before."""

    __slots__ = ()


class Unsettled(str):
    """A text without quotes, in the place of a plain value, that the next strategic merge puts in quotes."""

    __slots__ = ()


class NullKey(str):
    """
    A key with a null behind it that is not written ``null``; ``text`` is what is written, empty for a blank.

    A strategic merge drops a blank member, and a blank inside ``{ }`` (``is_flow``) becomes an empty text once written.
    """

    __slots__ = ("is_flow", "text")
    is_flow: bool
    text: str

    def __new__(cls, key: str, text: str = "", *, is_flow: bool = False) -> NullKey:
        """Make the key of a null that is written as a text."""
        made = super().__new__(cls, key)
        made.text = text
        made.is_flow = is_flow
        return made

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return what makes a copy."""
        return str(self), self.text


class FlowKey(str):
    """The first key of a mapping written in braces (``{ }``), the style of all that a strategic merge adds below it."""

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
        return new if type(new) is type(old) else type(old)(text_of(new))
    return unquoted(new) if isinstance(new, Quoted) else new


def unquoted(text: str) -> str:
    """Return a text that takes the style of a plain value; it stays a text, whatever it resembles."""
    return Unsettled(text) if type(settled(text)) is Quoted else str(text)


def untyped(text: str) -> Untagged:
    """Return a text as the value of a node without a tag, which counts as a text only if YAML reads it as one."""
    value = _resolved(text)
    return Untagged(text) if isinstance(value, str) and not isinstance(value, Date) else Untyped(text)


def is_in_braces(mapping: Mapping[str, Any]) -> bool:
    """Return whether a mapping was written in braces, by its keys."""
    types = set(map(type, mapping))
    # a first key that marks a null is not a FlowKey
    return FlowKey in types or (NullKey in types and any(key.is_flow for key in mapping if type(key) is NullKey))


def in_braces(value: Any) -> Any:
    """Return a copy of a value as it is below a mapping in braces: nothing is folded, a blank is an empty text."""
    if isinstance(value, dict):
        return {
            NullKey(key, key.text, is_flow=True) if type(key) is NullKey else key: in_braces(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [in_braces(item) for item in value]
    return Quoted(value) if type(value) is Folded else value


def put_null(mapping: dict[str, Any], key: str, text: str) -> None:
    """Set a member to a null that is written as a text, at the place where the member is."""
    members = {
        (NullKey(name, text) if text != "null" else str(name)) if name == key else name: None if name == key else value
        for name, value in mapping.items()
    }
    mapping.clear()
    mapping.update(members)


def with_text(old: Any, text: str) -> Any:
    """
    Return the plain value of a node that gets another text and keeps its type and style.

    Raise ValueError where the text does not fit the type. Source: Kustomize sets ``Value`` of the YAML node alone.
    """
    if isinstance(old, Untagged):
        return untyped(text)
    if isinstance(old, str) and not isinstance(old, Date):
        return type(old)(text) if isinstance(old, Quoted) else text
    value = spelled(resolve(text), text)
    if not _fits(value, text, old):
        raise ValueError("the text is of another type")
    return value


def _fits(value: Any, text: str, old: Any) -> bool:
    """Return whether a value fits the type of an old one; a whole number fits a float, ``1e3`` fits no whole number."""
    if value is None or old is None or isinstance(value, bool) or isinstance(old, bool):
        return type(value) is type(old)
    if isinstance(old, Date):
        return isinstance(value, Date)
    is_number = isinstance(value, int | float)
    return is_number and (is_integer(text) or not is_integer(text_of(old)))


def settled(text: str) -> str:
    """Return a text as a member that is set: in quotes where a reader of YAML 1.1 would not take it for a text."""
    # ``FieldSetter`` of kyaml: the quotes stay when the text becomes another one. It counts a date as a text.
    value = _resolved(text)
    return text if not text or (isinstance(value, str) and not isinstance(value, Yaml11Bool)) else Quoted(text)


def _resolved(text: str) -> Any:
    # Names and images are set in many objects. A long text is not kept for that.
    return _resolve_cached(text) if len(text) <= _LONGEST_NAME else _resolve_or_none(text)


def _resolve_or_none(text: str) -> Any:
    try:
        return resolve(text)
    except ValueError:  # infinity and the like: no JSON holds them, which ``plain`` reports
        return None


_resolve_cached = lru_cache(maxsize=1024)(_resolve_or_none)
_LONGEST_NAME: Final = 253


def reset(text: str, old: Any) -> str:
    """Return the new value of a field whose tag is lost and whose style stays, as most transformers set it."""
    return type(old)(text) if isinstance(old, Quoted) else untyped(text)


def is_blank(key: str) -> bool:
    """Return whether nothing was written behind the key of a null."""
    return type(key) is NullKey and not key.text


def is_null(holder: Any, key: Any) -> bool:
    """Return whether the value of a mapping or list is a null that is written as one: nothing, a blank, is none."""
    value = holder[key]
    if value is None:
        return not (isinstance(holder, dict) and any(name == key and is_blank(name) for name in holder))
    return type(value) is Untyped and _resolved(value) is None


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


def texts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the members of a mapping with their values as they were written; collections are empty."""
    return {
        str(key): (key.text if type(key) is NullKey else "null") if value is None else text_of(value)
        for key, value in values.items()
    }


def is_plain(value: Any, styles: frozenset[type] | None = None) -> bool:
    """Return whether nothing in a collection remembers how it was written, or is of some of these types."""
    styles = styles or _STYLED
    if type(value) is dict and not styles.isdisjoint(map(type, value)):
        return False
    for item in value.values() if type(value) is dict else value:
        kind = type(item)
        if kind is dict or kind is list:
            if not is_plain(item, styles):
                return False
        elif kind in styles:
            return False
    return True


def plain(value: Any) -> Any:
    """
    Return a copy of the value as it is once go-yaml has written and read it: with plain texts and numbers.

    Raise ValueError for a number that JSON cannot hold.
    """
    # One pass that copies and checks each type itself: this runs over every value that a build prints.
    kind = type(value)
    if kind is list:
        items = value.copy()
        for position, item in enumerate(items):
            if type(item) is not str:
                items[position] = plain(item)
        return items
    if kind is not dict:
        return _WRITTEN[kind](value) if kind in _WRITTEN else value
    members = {}
    for key, item in value.items():
        if type(key) is not str:
            # Inside ``{ }`` a blank becomes an empty text.
            is_text = item is None and type(key) is NullKey and key.is_flow and not key.text
            members[str(key)] = "" if is_text else plain(item)
        else:
            members[key] = item if type(item) is str else plain(item)
    return members


# What Kustomize makes of a folded text (``>``) when it writes it and reads it back: its writer puts an empty line more
# than needed before an indented line and at the end, so these lines are real. Annotations escape that, because
# Kustomize sets them again, without a style, before it writes.
_NEVER_FOLDED: Final = r" \n| \Z|[^\t\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]"
"""Texts that go-yaml writes in double quotes instead, where nothing is lost."""
_CHANGES: Final = r"\A[ \t]|\n[ \t]|\n\n\Z"


def refolded(text: str) -> str:
    """Return the text of a folded scalar after go-yaml v3 has written and read it."""
    text = str(text)
    if not re.search(_CHANGES, text) or re.search(_NEVER_FOLDED, text):
        return text
    *lines, last = text.split("\n")
    is_doubled = text.lstrip("\n")[:1] not in (" ", "\t", "")
    hint = "2" if text[0] in " \n" else ""
    chomp = "-" if last else "+" if text.endswith("\n\n") else ""
    written = "".join(_folded_line(line, is_doubled) for line in lines) + (last and f"  {last}")
    import yaml  # late: few texts are folded

    reread: str = yaml.load(f"text: >{hint}{chomp}\n{written}", yaml.CBaseLoader)["text"]
    return reread


def unfolded(value: Any) -> Any:
    """Return a value with its folded texts as YAML has them, so that nothing refolds them; itself without any."""
    if isinstance(value, dict):
        members = {key: unfolded(item) for key, item in value.items()}
        return members if any(members[key] is not item for key, item in value.items()) else value
    if isinstance(value, list):
        items = [unfolded(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return Quoted(value) if type(value) is Folded else value


def _folded_line(line: str, is_doubled: bool) -> str:
    if not line:
        return "\n"
    return f"  {line}\n\n" if is_doubled and line[0] not in " \t" else f"  {line}\n"


_WRITTEN: Final[Mapping[type, Any]] = {
    Quoted: str,
    Folded: refolded,
    Untagged: str,
    Unsettled: str,
    Untyped: lambda text: resolve(str(text)),
    SourceInt: int,
    SpelledFloat: float,
}
_MARKED_KEYS: Final = frozenset({NullKey, FlowKey})
_STYLED: Final = frozenset(_WRITTEN) | _MARKED_KEYS
REWRITTEN: Final = frozenset({Folded, Untyped, NullKey})
"""The types of texts, and of keys of nulls, that have another value once they are written and read."""
