"""
The value of a YAML scalar, as Kustomize 5.8 sees it: go-yaml v3 rules, then JSON.

``yes``, ``no``, ``on`` and ``y`` are strings; ``0755`` is 493; ``1e3`` is 1000, because JSON has no floats;
a date becomes an RFC 3339 string (``Date``); ``.inf`` and ``.nan`` have no JSON form and raise ValueError.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable
from typing import Any, Final

CORE: Final = "tag:yaml.org,2002:"

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
OLD_FLAGS: Final = frozenset(
    form for word in ("y", "n", "yes", "no", "on", "off") for form in (word, word.capitalize(), word.upper())
)
"""Strings for us, true or false for readers of YAML 1.1."""

# Patterns are compiled when a scalar first needs them: most manifests need none, and compiling all takes longer than
# a hundred objects take to render.
_NOT_JSON: Final = r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
_STARTS_NUMBER: Final = frozenset("+-.0123456789")
UNSURE: Final = frozenset("+-.0123456789~nNtTfFyYoO<")
"""A plain scalar that begins otherwise, and is not empty, is a string."""
_INTEGER: Final = (
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO](?P<oct>[0-7]+)"
    r"|0(?P<old>[0-7]*)|(?P<dec>[1-9][0-9]{0,19}))|0b(?P<sbin>[-+][01]+)|0o(?P<soct>[-+][0-7]+)"
)
_BASES: Final = {"hex": 16, "bin": 2, "oct": 8, "old": 8, "dec": 10, "sbin": 2, "soct": 8}
_FLOAT: Final = r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
_POINT_FIRST: Final = r"\.[0-9](_?[0-9])*([eE][-+]?[0-9](_?[0-9])*)?"
"""Only here an underscore has to be between digits."""
_TIMESTAMP: Final = (
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?P<sep>[Tt]| +)([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:[.,]([0-9]+))?"
    r"(?:(?P<utc>Z)|([-+])([0-9]{2}):([0-9]{2}))?)?"
)
_IN_NUMBERS: Final = "0123456789abcdefABCDEFxXoO_+-.,: TtZinIN"
"""The characters of numbers and dates; a text with any other is neither."""
_EXACT: Final = 1 << 53
"""Below this, a float has all the digits of its integer."""
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class Date(str):
    """A date as Kustomize prints it, in RFC 3339, that knows how it was written."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, moment: str, written: str) -> Date:
        """Make a date of its RFC 3339 form and of the form in the file."""
        date = super().__new__(cls, moment)
        date.written = written
        return date

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return what makes a copy."""
        return str(self), self.written


class Yaml11Bool(str):
    """A word without quotes that is a string here, and true or false for readers of YAML 1.1."""

    __slots__ = ()


def as_written(value: Any) -> Any:
    """Return the value with dates as they were written."""
    if isinstance(value, dict):
        return {key: as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_written(item) for item in value]
    return value.written if isinstance(value, Date) else value


def resolve(text: str) -> Any:
    """Return the value of a plain scalar; raise ValueError for infinity and not-a-number."""
    if text in _WORDS:
        return _WORDS[text]
    # go-yaml decides by the first character what a scalar may be (resolveTable).
    if text[0] not in _STARTS_NUMBER:
        return Yaml11Bool(text) if text in OLD_FLAGS else text
    if text.strip(_IN_NUMBERS):
        return text
    if _is_not_json(text):
        raise ValueError(f"{text} is not a number that JSON can hold")
    moment = _timestamp(text)
    if moment is not None:
        return Date(moment, text)
    number = _number(text)
    return text if number is None else number


def is_text(text: str) -> bool:
    """Return whether go-yaml v2, which Kustomize writes with, would read a plain scalar as a string."""
    if text in _WORDS:
        return False
    if text[0] not in _STARTS_NUMBER or text.startswith(("0o-", "0o+")) or text.strip(_IN_NUMBERS):
        return True
    return not _is_not_json(text) and _timestamp(text) is None and _number(text) is None


def is_integer(text: str) -> bool:
    """Return whether a plain number is an integer for go-yaml, as it is written: ``1e3`` and ``1.0`` are floats."""
    integer = re.fullmatch(_INTEGER, text.replace("_", ""))
    return integer is not None and isinstance(resolve(text), int)


def _is_not_json(text: str) -> bool:
    return text[-1] in "fFnN" and re.fullmatch(_NOT_JSON, text) is not None


def _number(text: str) -> int | float | None:
    # A float only: go-yaml tests this form by a pattern of its own.
    if text[0] == ".":
        return _float(text.replace("_", "")) if re.fullmatch(_POINT_FIRST, text) else None
    digits = text.replace("_", "")
    if text[0] in "123456789" and len(digits) < 19 and digits.isdecimal():  # nearly all are
        return int(digits)
    integer = re.fullmatch(_INTEGER, digits)
    if integer:
        base = integer.lastgroup or "dec"
        value = int(integer[base] or "0", _BASES[base]) * (-1 if integer["sign"] == "-" else 1)
        if _is_machine_integer(value) and (value < 1 << 63 or not integer["sign"]):
            return value
    return _float(digits)


def _float(text: str) -> int | float | None:
    if not re.fullmatch(_FLOAT, text):
        return None
    value = float(text)
    if math.isinf(value):
        return None
    if value.is_integer() and abs(value) < 1e21:  # JSON spells it as digits, which are read as an integer again
        integer = whole(value)
        return integer if _is_machine_integer(integer) else value
    return value


def whole(value: float) -> int:
    """Return a float without a fraction as the integer that Go prints for it: its shortest digits, then zeros."""
    if abs(value) < _EXACT:
        return int(value)
    from decimal import Decimal  # late: few manifests have such numbers

    return int(Decimal(repr(value)))


def _is_machine_integer(value: int) -> bool:
    return -(1 << 63) <= value < 1 << 64


def _timestamp(text: str) -> str | None:
    match = re.fullmatch(_TIMESTAMP, text) if text[4:5] == "-" else None
    if not match:
        return None
    year, month, day, hour, minute, second, *zone = (int(match[group] or 0) for group in (1, 2, 3, 5, 6, 7, 11, 12))
    has_zone = bool(match["utc"] or match[10])
    if not (1 <= month <= 12 and 1 <= day <= _days(year, month) and hour < 24 and minute < 60 and second < 60):
        return None
    if match["sep"] and has_zone == match["sep"].startswith(" "):
        return None  # with T a zone is needed, with a space there is none
    if zone[0] > 23 or zone[1] > 60:
        return None
    fraction = (match[8] or "")[:9].rstrip("0")
    return (
        f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
        + (f".{fraction}" if fraction else "")
        + _zone(match[10], zone[0] * 60 + zone[1])
    )


def _zone(sign: str | None, minutes: int) -> str:
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}" if minutes else "Z"


def _days(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 28 if month == 2 and not is_leap else _MONTH_DAYS[month - 1]


def _expect(kind: type | tuple[type, ...]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = resolve(text)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError("the value is not of the type of its tag")
        return value

    return read


def _binary(text: str) -> str:
    try:
        return binascii.a2b_base64("".join(text.split()), strict_mode=True).decode("utf-8", "replace")
    except binascii.Error:
        raise ValueError("the text is not base64") from None


TAGGED: Final[dict[str, Callable[[str], Any]]] = {
    CORE + "str": str,
    CORE + "int": _expect(int),
    CORE + "float": _expect((int, float)),
    CORE + "bool": _expect(bool),
    CORE + "null": _expect(type(None)),
    CORE + "timestamp": _expect(str),
    CORE + "binary": _binary,
}
"""What each tag makes of a scalar's text; any other tag on a scalar is refused."""
