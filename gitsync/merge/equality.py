"""When two values are equal to the API server."""

from __future__ import annotations

from typing import Any

from gitsync.merge import quantity
from gitsync.merge.schema import Schema


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, and never equal to booleans."""
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


def same_leaf(schema: Schema, a: Any, b: Any) -> bool:
    """Whether two leaves are equal; quantities are when their amounts are, because only one spelling is stored."""
    if schema.format == "quantity" and type(a) is str and type(b) is str:
        return a == b or quantity.equal(a, b)
    return same(a, b)
