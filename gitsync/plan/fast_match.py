"""Fast path: detect that a live object matches exactly, without a full comparison."""

from __future__ import annotations

from typing import Any, Final

from gitsync.merge.fieldset import SELF, Node
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.manifest import Manifest
from gitsync.plan.equality import same_value
from gitsync.plan.list_keys import element

_PLAIN: Final = frozenset({str, int, float, bool})
_NOT_OWNED: Final = frozenset({"name", "namespace"})


def matches_exactly(schema: Schema, desired: Manifest, live: Manifest, applied: Node) -> bool:
    """
    Whether the full comparison can be skipped: one pass over the declared fields, without building a list or set.

    True is certain: every declared value is live, by meaning, and ``applied``, the fields we own, are exactly these.
    False only means that the full comparison has to decide.
    """
    owned = len(applied)
    for name, value in desired.items():
        if name in ("apiVersion", "kind"):
            continue
        there = live.get(name)
        node = applied.get(f"f:{name}")
        below = schema.fields[name]
        if name == "metadata":
            value = {key: member for key, member in value.items() if key not in _NOT_OWNED}
            if not value and node is None:
                continue
        if node is None or below is None or not _value(below, value, there, node):
            return False
        owned -= 1
    return owned == 0


def _value(schema: Schema, desired: Any, live: Any, node: Node) -> bool:
    kind = type(desired)
    if kind is not type(live):
        return False
    if kind is dict and not schema.map_atomic:
        return _map(schema, desired, live, node)
    if kind is list and schema.list_type != "atomic" and schema.items is not None:
        return _list(schema, desired, live, node)
    return not node and same_value(schema, desired, live)


def _map(schema: Schema, desired: dict[str, Any], live: dict[str, Any], node: Node) -> bool:
    fields = schema.fields
    owned = len(node)
    for name, value in desired.items():
        below = node.get(f"f:{name}")
        if below is None:
            return False
        there = live.get(name)
        kind = type(value)
        if kind in _PLAIN:
            if below:
                return False
            if (there != value or type(there) is not kind) and not same_value(fields[name] or DEDUCED, value, there):
                return False
        elif not _value(fields[name] or DEDUCED, value, there, below):
            return False
        owned -= 1
    return owned == 0 or (owned == 1 and SELF in node)


def _list(schema: Schema, desired: list[Any], live: list[Any], node: Node) -> bool:
    """Compare items in the same order only; items that others inserted are left to the full comparison."""
    items = schema.items or DEDUCED
    if len(desired) != len(live) or len(desired) != len(node):
        return False
    for want, have in zip(desired, live, strict=True):
        name = element(schema, want)
        below = None if name is None else node.get(name)
        if below is None or type(have) is not type(want):
            return False
        if type(want) is not dict:
            if want != have:
                return False
        elif (not all(key in want for key in schema.keys) and element(schema, have) != name) or not _map(
            items, want, have, below
        ):
            return False
    return True
