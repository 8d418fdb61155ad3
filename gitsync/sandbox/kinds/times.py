"""Timestamps in the server's format, with Go's errors for malformed ones."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _parse(text: str, layout: str) -> datetime:
    rest = text
    numbers: list[int] = []
    fraction, zone = "", "Z"
    for element in _ELEMENTS.findall(layout):
        found = re.match(_PATTERNS.get(element, re.escape(element)), rest)
        if found is None:
            shown = f"cannot parse {_quoted(rest)} as {_quoted(element)}"
            raise ValueError(f"parsing time {_quoted(text)} as {_quoted(layout)}: {shown}")
        rest = rest[found.end() :]
        if element == ".000000":
            fraction = found[0][1:]
        elif element == "Z07:00":
            zone = found[0]
        elif found[0].isdigit():
            numbers.append(int(found[0]))
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
    except (ValueError, OverflowError):
        raise ValueError(f"parsing time {_quoted(text)}: day out of range") from None


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
