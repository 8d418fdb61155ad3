"""String formats that the API server checks (kube-openapi/pkg/validation/strfmt); any other is ignored."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from gitsync.kube.quantity import duration

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
