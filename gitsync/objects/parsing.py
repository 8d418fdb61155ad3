"""Single fields of a spec, read from what people write; what cannot be read is named with its cure."""

from __future__ import annotations

import re

from gitsync.errors import InvalidInput

_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", re.ASCII)
_LONGEST = 366 * 24 * 3600.0
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


def parse_duration(text: object, where: str, *, least: float = 0.0) -> float:
    """Return seconds of ``90s``, ``3m`` or ``1h30m``; raise InvalidInput naming the field and the accepted range."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) and text else None
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    found = float(hours * 3600 + minutes * 60 + seconds)
    if match is None or not least <= found <= _LONGEST:
        raise InvalidInput(
            f"{text!r} is an invalid duration: between {least:.0f}s and {_LONGEST / 3600:.0f}h",
            location=where,
            hint="write it as 30s, 3m or 1h30m",
        )
    return found


def duration(seconds: float) -> str:
    """Return seconds as ``parse_duration`` reads them, to the second."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def parse_number(text: object, where: str) -> float:
    """Return the number of a text such as ``0.05``; raise InvalidInput naming the field."""
    if not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        raise InvalidInput(f"{text!r} is no number in quotes", location=where, hint='write it as "0.05"')
    return float(text)


def choice(value: object, allowed: tuple[str, ...], where: str) -> str:
    """Return a value that is one of those allowed; raise InvalidInput naming the field."""
    if value not in allowed:
        raise InvalidInput(f"{value!r} is not one of {', '.join(allowed)}", location=where)
    return str(value)


def strings(value: object, where: str) -> tuple[str, ...]:
    """Return the texts of a list; raise InvalidInput naming the field."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidInput("must be a list of strings", location=where)
    return tuple(value)
