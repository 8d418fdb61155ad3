"""
Check values against a schema, in the words of the API server.

Of the formats of strings, those that the API server checks (kube-openapi/pkg/validation/strfmt); any other is ignored.
"""

from __future__ import annotations

import base64
import binascii
import functools
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import orjson
import re2

from gitsync.kube.quantity import duration
from gitsync.sandbox.crd.structural import SchemaNode, child_of, compile_schema
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import (
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)

_DATE_TIME = re.compile(
    r"(\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01]))[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d\d:\d\d)"
)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
_HOSTNAME = re.compile(r"(?=.{1,253}$)([A-Za-z0-9_](-?[A-Za-z0-9_])*)(\.[A-Za-z0-9_](-?[A-Za-z0-9_])*)*\.?")
_MAC = re.compile(r"([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")
_HEX_COLOR = re.compile(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_LONG_DURATION = re.compile(r"\d+\s*(d|day|days|w|week|weeks|h|hour|hours|m|min|mins|s|sec|secs)")


def _date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    # fromisoformat also accepts 20260101 and week dates.
    return len(text) == 10


def _date_time(text: str) -> bool:
    match = _DATE_TIME.fullmatch(text)
    return match is not None and _date(match[1])


def _duration(text: str) -> bool:
    try:
        duration(text)
    except ValueError:
        return _LONG_DURATION.fullmatch(text) is not None
    return True


def _byte(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _ip(version: int) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version
        except ValueError:
            return False

    return check


def _cidr(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _uri(text: str) -> bool:
    try:
        return bool(urlsplit(text).scheme)
    except ValueError:
        return False


def _uuid(version: int | None) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parsed = uuid.UUID(text)
        except ValueError:
            return False
        return version is None or parsed.version == version

    return check


def _pattern(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


_CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _byte,
    "cidr": _cidr,
    "date": _date,
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": _duration,
    "email": _pattern(_EMAIL),
    "hexcolor": _pattern(_HEX_COLOR),
    "hostname": _pattern(_HOSTNAME),
    "ipv4": _ip(4),
    "ipv6": _ip(6),
    "mac": _pattern(_MAC),
    "uri": _uri,
    "uuid": _uuid(None),
    "uuid3": _uuid(3),
    "uuid4": _uuid(4),
    "uuid5": _uuid(5),
}


def fits(text: str, name: str) -> bool:
    """Return whether the text has the format; it has every format that is not known."""
    check = _CHECKS.get(name)
    return check is None or check(text)


_META_MEMBERS = ("apiVersion", "kind", "metadata")
_KINDS: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}
_FORMATS: Mapping[type, str] = {int: "int64", float: "float64"}
_INT64 = 1 << 63
_MOST_EXACT = (1 << 53) - 1
_MOST_FLOAT32 = 3.4028234663852886e38


def validate_value(node: SchemaNode, value: Any, path: str) -> list[StatusCause]:
    """Return what is wrong with a value at a path; the root's path is empty."""
    causes: list[StatusCause] = []
    _value(node, value, path, causes)
    return causes


def _value(node: SchemaNode, value: Any, path: str, causes: list[StatusCause]) -> None:
    if type(value) is int and not -_INT64 <= value < _INT64:
        value = float(value)  # as Go's decoder reads a number beyond its integers
    if value is None and node.nullable:
        return
    _type(node, value, path, causes)
    raw = node.raw
    for member in ("allOf", "anyOf", "oneOf", "not"):
        if member in raw and not (node.int_or_string and _is_int_or_string(raw)):
            _combination(member, raw, value, path, causes)
    if isinstance(value, str):
        _string(raw, value, path, causes)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        _number(raw, value, path, causes)
    elif isinstance(value, list):
        _list(node, value, path, causes)
    if "enum" in raw and value not in raw["enum"]:
        choices = [item if isinstance(item, str) else orjson.dumps(item).decode() for item in raw["enum"]]
        listed = ", ".join(orjson.dumps(choice).decode() for choice in choices)
        shown = not_supported(path, value, ())
        causes.append(StatusCause(shown.reason, shown.message + listed, path))
    if isinstance(value, dict):
        _object(node, value, path, causes)


def _is_int_or_string(raw: Mapping[str, Any]) -> bool:
    """Return whether the combination only repeats what ``x-kubernetes-int-or-string`` says."""
    kinds = [{"type": "integer"}, {"type": "string"}]
    return raw.get("anyOf") == kinds or any(part.get("anyOf") == kinds for part in raw.get("allOf", ()))


def _type(node: SchemaNode, value: Any, path: str, causes: list[StatusCause]) -> None:
    """Check the type of a value (kube-openapi/pkg/validation/validate: typeValidator)."""
    kind = _KINDS[type(value)]
    wanted: tuple[str, ...]
    if node.int_or_string:
        wanted = ("integer", "string")
    elif node.type:
        wanted = (node.type,)
    else:
        return
    if kind in wanted or (kind == "integer" and node.type == "number"):
        return
    # A number with a fraction of zero counts as an integer while all integers of its size are exact in a float.
    if kind == "number" and node.type == "integer" and value.is_integer() and abs(value) <= _MOST_EXACT:
        return
    size = node.raw.get("format")
    if size and value is not None and not isinstance(value, (str, list)):
        # Formats are compared instead of types, and of all values only numbers have one.
        kind = _FORMATS.get(type(value), "")
        wanted = (size,)
    elif size and isinstance(value, list) and node.type not in ("integer", "number"):
        return  # the library leaves lists to the check of the format, which knows only texts
    causes.append(type_invalid(path, kind, f"{_in_body(path)} must be of type {','.join(wanted)}: {_quoted(kind)}"))


def _in_body(path: str) -> str:
    return f"{path} in body"


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def _string(raw: Mapping[str, Any], value: str, path: str, causes: list[StatusCause]) -> None:
    if "maxLength" in raw and len(value) > raw["maxLength"]:  # the first of the three is reported alone
        causes.append(too_long(path, raw["maxLength"]))
    elif "minLength" in raw and len(value) < raw["minLength"]:
        text = f"{_in_body(path)} should be at least {raw['minLength']} chars long"
        causes.append(invalid(path, value, text))
    elif raw.get("pattern") and not matches_pattern(raw["pattern"], value):
        causes.append(invalid(path, value, f"{_in_body(path)} should match '{raw['pattern']}'"))
    if raw.get("format") and not fits(value, raw["format"]):
        causes.append(type_invalid(path, value, f"{_in_body(path)} must be of type {raw['format']}: {_quoted(value)}"))


def matches_pattern(pattern: str, value: str) -> bool:
    """Return whether the pattern is found in the value."""
    return _regex(pattern).search(value) is not None


@functools.lru_cache(maxsize=1024)
def _regex(pattern: str) -> Any:
    return re2.compile(pattern)


def _number(raw: Mapping[str, Any], value: float, path: str, causes: list[StatusCause]) -> None:
    """Check a number (numberValidator): bounds that the type cannot hold are causes of every value."""
    causes += _representable(value, raw, "Checked", path)
    factor = raw.get("multipleOf")
    if factor:
        unusable = _representable(factor, raw, "MultipleOf", path)
        causes += unusable + _multiple(value, factor, path, is_cut=not unusable)
    for bound, exclusive, sign, words, name in (
        ("minimum", "exclusiveMinimum", -1, "greater than", "Minimum boundary"),
        ("maximum", "exclusiveMaximum", 1, "less than", "Maximum boundary"),
    ):
        limit = raw.get(bound)
        if limit is None:
            continue
        causes += _representable(limit, raw, name, path)
        is_exclusive = raw.get(exclusive, False)
        if (value - limit) * sign > 0 or (is_exclusive and value == limit):
            text = f"should be {words} {limit}" if is_exclusive else f"should be {words} or equal to {limit}"
            causes.append(invalid(path, value, f"{_in_body(path)} {text}"))


def _representable(number: float, raw: Mapping[str, Any], what: str, path: str) -> list[StatusCause]:
    """
    Check that a value or a bound fits into the type and format of its schema (validate: IsValueValidAgainstRange).

    Bounds are floats in Go, so that the greatest int64, rounded up by one, is out of the range of integers.
    """
    kind = raw.get("type", "")
    size = raw.get("format", "")
    if kind == "integer":
        limit = 1 << (31 if size == "int32" else 63)
        is_float = what != "Checked" or isinstance(number, float)
        # Go prints the float with as few digits as tell it apart, and parses that: -2**63 is then below the range.
        exact = Decimal(repr(float(number))) if is_float else Decimal(number)
        fits_type = exact == exact.to_integral_value() and -limit <= exact < limit
    else:
        fits_type = size not in ("float", "float32") or abs(number) <= _MOST_FLOAT32
    if fits_type:
        return []
    form = f"with format {size}" if size else "(default format)"
    # The library makes a plain error of it, without a path of its own.
    return [invalid("<nil>", "", f"{what} value must be of type {kind} {form} in {path}")]


def _multiple(value: Any, factor: Any, path: str, *, is_cut: bool) -> list[StatusCause]:
    """Check a multiple; ``is_cut``: the factor of an integer is cut to one, and 0.5 is reported (MultipleOfInt)."""
    used = int(factor) if is_cut and isinstance(value, int) else factor
    if used <= 0:
        return [invalid(path, used, f"factor MultipleOf declared for {path} must be positive: {used}")]
    if Decimal(str(value)) % Decimal(str(used)):
        return [invalid(path, value, f"{_in_body(path)} should be a multiple of {factor}")]
    return []


def _list(node: SchemaNode, value: list[Any], path: str, causes: list[StatusCause]) -> None:
    raw = node.raw
    if "maxItems" in raw and len(value) > raw["maxItems"]:
        causes.append(too_many(path, len(value), raw["maxItems"]))
    if "minItems" in raw and len(value) < raw["minItems"]:
        text = f"{_in_body(path)} should have at least {raw['minItems']} items"
        causes.append(invalid(path, len(value), text))
    if raw.get("uniqueItems") and len({orjson.dumps(item) for item in value}) < len(value):
        causes.append(invalid(path, "", f"{_in_body(path)} shouldn't contain duplicates"))
    if node.items is not None:
        for index, item in enumerate(value):
            _value(node.items, item, f"{path}[{index}]", causes)


def _object(node: SchemaNode, value: dict[str, Any], path: str, causes: list[StatusCause]) -> None:
    raw = node.raw
    if "maxProperties" in raw and len(value) > raw["maxProperties"]:
        causes.append(too_many(path, len(value), raw["maxProperties"]))
    if "minProperties" in raw and len(value) < raw["minProperties"]:
        text = f"{_in_body(path)} should have at least {raw['minProperties']} properties"
        causes.append(invalid(path, len(value), text))
    for name in raw.get("required") or ():
        if name not in value:
            causes.append(required(f"{path}.{name}" if path else name))
    if node.embedded and path:
        missing = [name for name in ("apiVersion", "kind") if not value.get(name)]
        causes.extend(required(f"{path}.{name}", "must not be empty") for name in missing)
    for name, item in value.items():
        child = child_of(node, name)
        if child is None or (node.embedded and name in _META_MEMBERS):
            continue
        _value(child, item, f"{path}.{name}" if path else name, causes)


def _combination(member: str, raw: Mapping[str, Any], value: Any, path: str, causes: list[StatusCause]) -> None:
    """Check allOf, anyOf, oneOf and not: their own complaint has no field."""
    declared = raw[member]
    parts = [declared] if member == "not" else declared
    results = [_part(part, value, path) for part in parts]
    good = sum(not result for result in results)
    shown = _quoted(path)
    text = ""
    if member == "allOf" and good < len(parts):
        text = f"{shown} must validate all the schemas (allOf)" + (". None validated" if not good else "")
    elif member == "anyOf" and parts and not good:
        text = f"{shown} must validate at least one schema (anyOf)"
    elif member == "oneOf" and good != 1:
        count = "none valid" if not good else f"{good} valid alternatives"
        text = f"{shown} must validate one and only one schema (oneOf). Found {count}"
    elif member == "not" and good:
        text = f"{shown} must not validate the schema (not)"
    if not text:
        return
    # The real cause has no path: the library sets none for combinations.
    causes.append(invalid("<nil>", "", text))
    if member in ("allOf", "anyOf", "oneOf") and not good and results:
        # The alternative that fits best is explained, as go-openapi does.
        causes.extend(sorted(results, key=len)[0])


def _part(part: Mapping[str, Any], value: Any, path: str) -> list[StatusCause]:
    return validate_value(_part_node(orjson.dumps(part, option=orjson.OPT_SORT_KEYS)), value, path)


@functools.lru_cache(maxsize=1024)
def _part_node(raw: bytes) -> SchemaNode:
    return compile_schema(orjson.loads(raw), root=False)


def validate_lists(node: SchemaNode, value: Any, path: str) -> list[StatusCause]:
    """Return the duplicates in lists that are sets or maps."""
    causes: list[StatusCause] = []
    if isinstance(value, dict):
        for name, item in value.items():
            child = child_of(node, name)
            if child is not None:
                causes += validate_lists(child, item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        causes += _duplicates(node.raw, value, path)
        if node.items is not None:
            for index, item in enumerate(value):
                causes += validate_lists(node.items, item, f"{path}[{index}]")
    return causes


def _duplicates(raw: Mapping[str, Any], value: list[Any], path: str) -> list[StatusCause]:
    kind = raw.get("x-kubernetes-list-type")
    if kind not in ("set", "map"):
        return []
    keys = raw.get("x-kubernetes-list-map-keys") or ()
    keys_of_items: set[bytes] = set()
    causes = []
    for index, item in enumerate(value):
        key = {name: item[name] for name in keys if name in item} if kind == "map" and isinstance(item, dict) else item
        if kind == "map" and not isinstance(item, dict):
            causes.append(invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map"))
            continue
        text = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
        if text in keys_of_items:
            causes.append(duplicate(f"{path}[{index}]", key))
        keys_of_items.add(text)
    return causes
