"""When two values are equal to the API server."""

from __future__ import annotations

from typing import Any


def same(a: Any, b: Any) -> bool:
    """
    Whether two JSON values are equal: numbers by value, and never equal to booleans.

    Quantities are compared as they are spelled: applying ``1000m`` over a stored ``1`` is another value.
    """
    if a is b:
        return True
    if a != b:
        return False
    kind = type(a)
    if kind is dict:
        return all(same(value, b[key]) for key, value in a.items())
    if kind is list:
        return all(map(same, a, b))
    return (kind is bool) is (type(b) is bool)
