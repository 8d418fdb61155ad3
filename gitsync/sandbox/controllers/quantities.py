"""Quantities as numbers, for sums and comparisons."""

from __future__ import annotations

from decimal import Decimal

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
}


def number(quantity: str | int | float) -> Decimal:
    """Return a quantity that the API server accepted as a number."""
    text = str(quantity)
    digits = text.rstrip("numkMGTPEi")
    if digits[-1:] in ("e", "E") or text[len(digits) :] not in _SUFFIXES:
        return Decimal(text)
    return Decimal(digits) * _SUFFIXES[text[len(digits) :]]
