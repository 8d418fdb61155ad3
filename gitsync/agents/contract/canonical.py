"""
Canonical JSON by RFC 8785 (JSON Canonicalization Scheme), and digests of it.

Written here and not taken from a library: the core would depend on it for three rules, and its tests are the vectors of
the RFC.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any, Final

from gitsync.errors import InvalidInput

_EXACT: Final = 2**53
"""The largest integer of which all smaller ones are doubles too; RFC 8785 knows no other numbers."""
_DEEPEST: Final = 100
"""Levels of a document; a hostile server may nest without end, and Python would run out of stack."""


def canonical(value: Any) -> str:
    """Return a JSON value as RFC 8785 writes it; raise InvalidInput for what is not JSON, or nested too deep."""
    return _text(value, 0)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a value, as ``sha256:`` and hex."""
    return f"sha256:{hashlib.sha256(canonical(value).encode()).hexdigest()}"


def _text(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise InvalidInput(f"nested deeper than {_DEEPEST} levels")
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(_text(item, depth + 1) for item in value)}]"
    if isinstance(value, dict):
        # Section 3.2.3: sorted by UTF-16 code units, which differs from code points beyond the basic plane.
        names = sorted(value, key=lambda name: str(name).encode("utf-16-be", "surrogatepass"))
        return f"{{{','.join(f'{_quoted(name)}:{_text(value[name], depth + 1)}' for name in names)}}}"
    raise InvalidInput(f"{type(value).__name__} is not a value of JSON")


def _quoted(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        # Section 3.2.2.2: half of a surrogate pair is an error.
        raise InvalidInput("a text has half of a surrogate pair") from error
    return json.dumps(text, ensure_ascii=False)


def _number(value: float) -> str:
    """Return a number as ECMAScript writes it (section 3.2.2.3; ECMA-262, Number::toString)."""
    number = float(value) if not isinstance(value, int) or abs(value) <= _EXACT else _as_double(value)
    if not math.isfinite(number):
        raise InvalidInput(f"{value} is not a number of JSON")
    if not number:
        return "0"
    # repr has the fewest digits that give the same double, as ECMAScript demands; only the layout differs.
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    point = len(text) + int(exponent)
    if len(text) <= point <= 21:
        text += "0" * (point - len(text))
    elif 0 < point <= 21:
        text = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        text = f"{text[0]}{fraction}e{point - 1:+d}"
    return f"-{text}" if sign else text


def _as_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise InvalidInput("an integer is larger than any number of JSON in RFC 8785") from error
