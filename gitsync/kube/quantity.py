"""
Quantities such as ``500m`` and ``1Gi``: parse, compare, and the spelling that the API server stores.

Exact: a value is a whole number of nanos. What is finer is rounded away from zero and what is larger than
2^63-1 is that, as the API server does it.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

_NANO: Final = 10**9
_LARGEST: Final = (2**63 - 1) * _NANO
_PATTERN: Final = re.compile(r"([+-]?)([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*)([-+]?[0-9]*)", re.ASCII)
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY)
_MAX_EXPONENT: Final = 127

_WRONG_FORMAT: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"


class Form(Enum):
    """The kind of suffix a quantity was written with, which its stored spelling keeps."""

    DECIMAL = "DecimalSI"
    BINARY = "BinarySI"
    EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount in nanos; quantities compare by amount alone."""

    nanos: int
    form: Form = field(default=Form.DECIMAL, compare=False)

    def __str__(self) -> str:
        """Return the spelling that the API server stores: whole, with the largest suffix that loses nothing."""
        if self.form is Form.BINARY and abs(self.nanos) >= 1024 * _NANO and self.nanos % _NANO == 0:
            number, power = _shift_out(self.nanos // _NANO, 1024)
            return f"{number}{_BINARY_SUFFIX[power]}"
        number, power = _shift_out(self.nanos, 1000)
        exponent = 3 * power - 9 if number else 0
        if self.form is Form.EXPONENT:
            return f"{number}e{exponent}" if exponent else f"{number}"
        return f"{number}{_DECIMAL_SUFFIX[exponent]}"

    def __int__(self) -> int:
        """Return whole units, rounded away from zero as ``Value()`` is."""
        return _divide_up(self.nanos, _NANO)


@functools.lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    """Return a quantity; raise ValueError, in the API server's words, where the text is not one."""
    match = _PATTERN.fullmatch(text)
    if match is None or not text:
        raise ValueError(_WRONG_FORMAT)
    sign, whole, _, fraction, letters, digits = match.groups()
    fraction = fraction or ""
    if not whole and not fraction:
        raise ValueError(_WRONG_NUMBER if match[3] else _WRONG_FORMAT)
    form, numerator, denominator = _scale(letters, digits)
    amount = int(whole + fraction) * numerator * _NANO
    nanos = _divide_up(amount, denominator * 10 ** len(fraction))
    return Quantity((-1 if sign == "-" else 1) * min(nanos, _LARGEST), form)


def canonical(value: str | int | float) -> str:
    """Return the stored spelling of a quantity that was written as a string or a number."""
    return str(parse(value if isinstance(value, str) else repr(value)))


def equal(a: str, b: str) -> bool:
    """Whether two texts are quantities of one amount."""
    try:
        return parse(a) == parse(b)
    except ValueError:
        return False


def _scale(letters: str, digits: str) -> tuple[Form, int, int]:
    """Return the form of a suffix, and its factor as numerator and denominator."""
    if letters in ("e", "E") and digits:
        if digits in ("+", "-") or abs(int(digits)) > _MAX_EXPONENT:
            raise ValueError(_WRONG_SUFFIX)
        return Form.EXPONENT, *_power(int(digits))
    if digits:
        raise ValueError(_WRONG_SUFFIX)
    if letters in _BINARY:
        return Form.BINARY, 1 << _BINARY[letters], 1
    if letters in _DECIMAL:
        return Form.DECIMAL, *_power(_DECIMAL[letters])
    raise ValueError(_WRONG_SUFFIX)


def _power(exponent: int) -> tuple[int, int]:
    return (10**exponent, 1) if exponent >= 0 else (1, 10**-exponent)


def _divide_up(amount: int, by: int) -> int:
    """Divide, rounding away from zero."""
    return -(-amount // by) if amount >= 0 else amount // by


def _shift_out(number: int, factor: int) -> tuple[int, int]:
    """Return the number without its whole factors, and how many there were."""
    power = 0
    while number and number % factor == 0:
        number //= factor
        power += 1
    return number, power


_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_UNITS: Final = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}


@functools.lru_cache(maxsize=1024)
def duration(text: str) -> int:
    """Return a duration such as ``1h30m`` in nanoseconds; raise ValueError where the text is not one."""
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if rest == "0":
        return 0
    total = 0
    end = 0
    for match in _DURATION.finditer(rest):
        if match.start() != end:
            break
        whole, _, fraction = match[1].partition(".")
        total += int((whole + fraction) or "0") * _UNITS[match[2]] // 10 ** len(fraction)
        end = match.end()
    if not rest or end != len(rest):
        raise ValueError(f'time: invalid duration "{text}"')
    return -total if sign == "-" else total
