"""Timestamps in the server's format, with Go's errors for malformed ones."""

from __future__ import annotations

import base64
import binascii
import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from gitsync.kube.quantity import canonical
from gitsync.sandbox.schema.go_types import go_type_of

_LAYOUT = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT = "2006-01-02T15:04:05.000000Z07:00"
_ELEMENTS = re.compile(r"2006|01|02|15|04|05|\.000000|Z07:00|[-T:]")
_PATTERNS = {
    "2006": r"\d{4}",
    "01": r"\d\d",
    "02": r"\d\d",
    "15": r"\d\d",
    "04": r"\d\d",
    "05": r"\d\d",
    ".000000": r"\.\d{6}",
    "Z07:00": r"Z|[+-]\d\d:\d\d",
}
_RANGES = (("month", 1, 12), ("hour", 0, 23), ("minute", 0, 59), ("second", 0, 59))
_SECONDS = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_CANONICAL = re.compile(_SECONDS + "Z")
_CANONICAL_MICRO = re.compile(_SECONDS + r"\.[0-9]{6}Z")


def canonical_time(text: str) -> str:
    """Return the time in UTC and whole seconds; raise ValueError with Go's words."""
    # Stored objects have this form; parsing it again cost a third of decoding an object.
    if _is_canonical(text, _CANONICAL):
        return text
    return _parse(text, _LAYOUT).strftime("%Y-%m-%dT%H:%M:%SZ")


def canonical_micro_time(text: str) -> str:
    """Return the time in UTC with microseconds; raise ValueError with Go's words."""
    if _is_canonical(text, _CANONICAL_MICRO):
        return text
    return _parse(text, _MICRO_LAYOUT).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _is_canonical(text: str, pattern: re.Pattern[str]) -> bool:
    """Return whether a time has the server's own form and its day exists; every object carries some such times."""
    if not pattern.fullmatch(text):
        return False
    try:
        # The pattern accepts February 30.
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _parse(text: str, layout: str) -> datetime:
    rest = text
    numbers: list[int] = []
    fraction = ""
    zone = "Z"
    for element in _ELEMENTS.findall(layout):
        element_match = re.match(_PATTERNS.get(element, re.escape(element)), rest)
        if element_match is None:
            shown = f"cannot parse {_quoted(rest)} as {_quoted(element)}"
            raise ValueError(f"parsing time {_quoted(text)} as {_quoted(layout)}: {shown}")
        rest = rest[element_match.end() :]
        if element == ".000000":
            fraction = element_match[0][1:]
        elif element == "Z07:00":
            zone = element_match[0]
        elif element_match[0].isdecimal():
            numbers.append(int(element_match[0]))
        # Go's time.Parse accepts a fraction after the seconds of any layout; it is dropped, since the type stores whole
        # seconds.
        if element == "05" and layout == _LAYOUT and (parts := re.match(r"[.,](\d+)", rest)):
            rest = rest[parts.end() :]
    if rest:
        raise ValueError(f"parsing time {_quoted(text)}: extra text: {_quoted(rest)}")
    year, month, day, hour, minute, second = numbers
    for (name, least, most), value in zip(_RANGES, (month, hour, minute, second), strict=True):
        if not least <= value <= most:
            raise ValueError(f"parsing time {_quoted(text)}: {name} out of range")
    try:
        moment = datetime(year, month, day, hour, minute, second, int(fraction or 0))
        offset = "+00:00" if zone == "Z" else zone
        return datetime.fromisoformat(moment.isoformat() + offset).astimezone(UTC)
    # The year 0, or a zone that leads out of the years 1 to 9999.
    except (ValueError, OverflowError):
        raise ValueError(f"parsing time {_quoted(text)}: day out of range") from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


Decoder = Callable[[Any], Any]

ABSENT = object()
"""Returned for a value that Go leaves out."""

_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class DecodeError(ValueError):
    """A value that does not fit its member's type; the text is the server's."""


class TypeMismatch(Exception):
    """A JSON value of the wrong type, on its way up to the struct that names it."""

    def __init__(self, json_type: str, wanted: str) -> None:
        super().__init__(json_type)
        self.json_type = json_type
        self.wanted = wanted
        self.struct = ""
        self.path: list[str] = []

    @property
    def text(self) -> str:
        """Return Go's message for it."""
        place = f"Go struct field {self.struct}.{'.'.join(reversed(self.path))}" if self.path else "Go value"
        return f"json: cannot unmarshal {self.json_type} into {place} of type {self.wanted}"


def json_type_of(value: Any) -> str:
    """Return what Go calls a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


def null(_: Any) -> None:
    """Return null, whatever it is given."""
    return


def raw(value: Any) -> Any:
    """Return the value as it is."""
    return value


def string(pair: str) -> Decoder:
    """Return the decoder of a string member, given as ``Struct.member``."""
    wanted = go_type_of(pair, member=True)

    def string(value: Any) -> Any:
        if type(value) is not str:
            raise TypeMismatch(json_type_of(value), wanted)
        return value

    return string


def integer(size: str, *, wraps: bool = False) -> Decoder:
    """Return the decoder of ``int32`` or ``int64``; ``wraps`` keeps the low bits of a larger one, as a Go cast does."""
    least, most = _LIMITS[size]

    def integer(value: Any) -> Any:
        if type(value) is int:
            if least <= value <= most:
                return value
            if wraps and size == "int32":
                return (value - least) % 2**32 + least
        elif type(value) is not float:
            raise TypeMismatch(json_type_of(value), size)
        raise TypeMismatch(f"number {value}", size)

    return integer


def boolean(value: Any) -> Any:
    """Decode a boolean."""
    if type(value) is not bool:
        raise TypeMismatch(json_type_of(value), "bool")
    return value


def number(value: Any) -> Any:
    """Decode a number."""
    if type(value) not in (int, float):
        raise TypeMismatch(json_type_of(value), "float64")
    return value


def octets(value: Any) -> Any:
    """Decode bytes in base64, or as a list of numbers; line breaks are left out."""
    if type(value) is list:
        return base64.b64encode(bytes(_octet(item) for item in value)).decode()
    if type(value) is not str:
        raise TypeMismatch(json_type_of(value), "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        compact = value.replace("\n", "").replace("\r", "")
        fault = _base64_fault(compact)
        if fault >= 0:
            raise DecodeError(f"illegal base64 data at input byte {fault}") from None
        return compact
    return value


def _octet(value: Any) -> int:
    """Return a number that fits into a byte; null is zero, as Go leaves the element alone."""
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 256:
        raise TypeMismatch(json_type_of(value) if type(value) is not int else f"number {value}", "uint8")
    return value


def _base64_fault(text: str) -> int:
    """Return the position of what Go calls the first illegal byte, -1 when there is none."""
    # encoding/base64 reports the offset of the first illegal byte.
    for position, char in enumerate(text):
        if char == "=":
            whole = position % 4 >= 2 and text[position:] in ("=", "==") and len(text) % 4 == 0
            return -1 if whole else position
        if not (char.isascii() and (char.isalnum() or char in "+/")):
            return position
    return -1 if len(text) % 4 == 0 else len(text)


def _quantity(value: Any) -> Any:
    text = value if type(value) is str else orjson.dumps(value).decode()
    try:
        return _canonical(text)
    except ValueError as error:
        raise DecodeError(str(error)) from None


_canonical = functools.lru_cache(maxsize=4096)(canonical)


def _int_or_string(value: Any) -> Any:
    if type(value) is str:
        return value
    return _alone(_int32, value)


_int32 = integer("int32")


def _alone(decode: Decoder, value: Any) -> Any:
    """Decode for a type that reads its own JSON, so that Go knows no member to complain of."""
    try:
        return decode(value)
    except TypeMismatch as error:
        raise DecodeError(error.text) from None


_text = string("")


def _time(value: Any) -> Any:
    text = _alone(_text, value)
    try:
        return canonical_time(text)
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _micro_time(value: Any) -> Any:
    text = _alone(_text, value)
    try:
        return canonical_micro_time(text)
    except ValueError as error:
        raise DecodeError(str(error)) from None


_SCALARS: Mapping[str, Decoder] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": _time,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": _micro_time,
}


def scalar_for(reference: str) -> Decoder | None:
    """Return the decoder of a referenced type that is a plain value, None for any other."""
    return _SCALARS.get(reference)
