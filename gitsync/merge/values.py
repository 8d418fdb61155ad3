"""JSON values: equality as the API server defines it, and JSON merge patch (RFC 7386)."""

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


def merge_patch(value: Any, patch: Any) -> Any:
    """
    Return a value with a merge patch applied: members are merged, null removes, anything else replaces.

    The input is not changed; what the patch does not touch is shared, and a patch that changes nothing gives
    back an equal value.
    """
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            out.pop(name, None)
        else:
            out[name] = merge_patch(out.get(name), member)
    return out
