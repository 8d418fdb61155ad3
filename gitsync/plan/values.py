"""When two values mean the same to the API server."""

from __future__ import annotations

from typing import Any

from gitsync.merge.schema import DEDUCED, Schema


def is_empty(value: Any) -> bool:
    """Tell whether a value is one that the API server may drop: null, an empty map or an empty list."""
    return value is None or value == {} or value == []


def same_value(schema: Schema, desired: Any, live: Any) -> bool:
    """
    Tell whether a live value means what was declared.

    Numbers are compared by value, members that only live has count as equal where they hold the schema's default, and
    null, an empty map and an empty list are alike.
    """
    if desired is live:
        return True
    if type(desired) is dict and type(live) is dict:
        return _same_maps(schema, desired, live)
    if type(desired) is list and type(live) is list:
        items = schema.items or DEDUCED
        return len(desired) == len(live) and all(
            same_value(items, want, have) for want, have in zip(desired, live, strict=True)
        )
    if is_empty(desired) and is_empty(live):
        return True
    if isinstance(desired, bool) is not isinstance(live, bool):
        return False
    return bool(desired == live)


def _same_maps(schema: Schema, desired: dict[str, Any], live: dict[str, Any]) -> bool:
    for name, value in desired.items():
        below = schema.fields[name] or DEDUCED
        if name in live:
            if not same_value(below, value, live[name]):
                return False
        elif not is_empty(value):
            return False
    for name, value in live.items():
        if name not in desired and not is_empty(value):
            below = schema.fields[name] or DEDUCED
            if below.default is None or below.default != value:
                return False
    return True
