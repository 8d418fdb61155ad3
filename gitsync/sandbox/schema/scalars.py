"""Decoders of plain values: what Go would read, in the spelling that Go would write."""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from gitsync.kube.quantity import canonical
from gitsync.sandbox.kinds.times import canonical_micro_time, canonical_time
from gitsync.sandbox.schema.go_types import go_type_of

Decoder = Callable[[Any], Any]

ABSENT = object()
"""Returned for a value that Go leaves out."""

_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class DecodeError(ValueError):
    """A value that does not fit its member's type; the text is the server's."""


class Mismatch(Exception):
    """A JSON value of the wrong type, on its way up to the struct that names it."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted
        self.struct = ""
        self.path: list[str] = []

    @property
    def text(self) -> str:
        """Return what Go says of it."""
        place = f"Go struct field {self.struct}.{'.'.join(reversed(self.path))}" if self.path else "Go value"
        return f"json: cannot unmarshal {self.found} into {place} of type {self.wanted}"


def found_kind(value: Any) -> str:
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
            raise Mismatch(found_kind(value), wanted)
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
            raise Mismatch(found_kind(value), size)
        raise Mismatch(f"number {value}", size)

    return integer


def boolean(value: Any) -> Any:
    """Decode a boolean."""
    if type(value) is not bool:
        raise Mismatch(found_kind(value), "bool")
    return value


def number(value: Any) -> Any:
    """Decode a number."""
    if type(value) not in (int, float):
        raise Mismatch(found_kind(value), "float64")
    return value


def octets(value: Any) -> Any:
    """Decode bytes in base64, or as a list of numbers; line breaks are left out."""
    if type(value) is list:
        return base64.b64encode(bytes(_octet(item) for item in value)).decode()
    if type(value) is not str:
        raise Mismatch(found_kind(value), "[]uint8")
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
        raise Mismatch(found_kind(value) if type(value) is not int else f"number {value}", "uint8")
    return value


def _base64_fault(text: str) -> int:
    """Return the position of what Go calls the first illegal byte, -1 when there is none."""
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
    except Mismatch as error:
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
