"""Semantic equality: whether the API server treats two values as the same."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitsync.kube import quantity
from gitsync.kube.openapi import DEFAULTS, RBAC_GROUP, default_limits
from gitsync.merge.fieldset import SELF, Node
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of, key_default
from gitsync.objects.manifest import Manifest

_CORE = "io.k8s.api.core.v1."
_UNORDERED = frozenset(f"{_CORE}Endpoint{part}" for part in ("Subset", "Address", "Port"))
"""Lists that the API server sorts."""


def is_empty(schema: Schema, value: Any) -> bool:
    """
    Whether a value is equivalent to an absent one: null, an empty list, or an empty map of names.

    An empty struct is not: ``namespaceSelector: {}`` selects every namespace, and its absence only one.
    """
    return value is None or value == [] or (value == {} and not schema.declared)


def same_value(schema: Schema, desired: Any, live: Any) -> bool:
    """
    Whether a live value is equivalent to the declared one.

    Quantities, durations and bytes compare by value, members that only live has count as equal where they hold the
    default; null, an empty list, string and map of names are equivalent.
    """
    if desired is live:
        return True
    if type(desired) is dict and type(live) is dict:
        # The API server derives defaults of one member from another (defaultRequest from default, default from max).
        if schema.name == f"{_CORE}LimitRangeItem":
            desired = default_limits(desired)
            live = default_limits(live)
        return _same_maps(schema, desired, live)
    if type(desired) is list and type(live) is list:
        return _same_lists(schema.items or DEDUCED, desired, live)
    if is_empty(schema, desired) and is_empty(schema, live):
        return True
    # Go leaves an empty string out of the stored object (omitempty).
    if schema.scalar == "string" and not desired and not live:
        return True
    # Bytes of a custom resource are stored as the text that was sent.
    if schema.format in _READ and not (schema.custom and schema.format == "byte"):
        return _same_amount(_READ[schema.format], desired, live)
    # True == 1 in Python
    return bool(desired == live) and isinstance(desired, bool) is isinstance(live, bool)


def respelled(
    schema: Schema, desired: Any, live: Any, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """
    Yield path and live value of what lives in another spelling than declared, with the same meaning.

    The API server stores the values of custom types as they are sent, and a controller in Go rewrites them with each
    of its updates (``1`` as ``"1"``, ``0.5`` as ``500m``).
    """
    if live is None or desired == live:
        return
    if type(desired) is dict and type(live) is dict and not schema.map_atomic:
        for name, value in desired.items():
            yield from respelled(schema.fields[name] or DEDUCED, value, live.get(name), (*path, f"f:{name}"))
    elif type(desired) is list and type(live) is list and schema.list_type != "atomic":
        items = indexed(schema, live) or {}
        for key, (_, item) in (indexed(schema, desired) or {}).items():
            if key in items:
                yield from respelled(schema.items or DEDUCED, item, items[key][1], (*path, key))
    elif same_value(schema, desired, live):
        yield path, live


def _bytes(text: str) -> bytes:
    """Decode base64 with line breaks; the API server stores one line, in custom resources the text as sent."""
    return base64.b64decode(text.replace("\r", "").replace("\n", ""), validate=True)


_READ: Final[Mapping[str, Callable[[str], Any]]] = {
    "byte": _bytes,
    "duration": quantity.duration,
    "quantity": quantity.parse,
}
"""Functions that return the value of a text, by format."""


def _same_amount(read: Callable[[str], Any], desired: Any, live: Any) -> bool:
    """Compare by value; a number counts as its YAML text, and a text that cannot be parsed compares as it is."""
    try:
        return bool(read(str(desired)) == read(str(live)))
    except ValueError:
        return bool(desired == live)


def _same_lists(items: Schema, desired: list[Any], live: list[Any]) -> bool:
    if len(desired) != len(live):
        return False
    if all(same_value(items, want, have) for want, have in zip(desired, live, strict=True)):
        return True
    if items.name not in _UNORDERED:
        return False
    # Quadratic, for the few lists whose order the API server changes.
    unmatched = list(live)
    for want in desired:
        match = next((index for index, have in enumerate(unmatched) if same_value(items, want, have)), None)
        if match is None:
            return False
        del unmatched[match]
    return True


def _same_maps(schema: Schema, desired: dict[str, Any], live: dict[str, Any]) -> bool:
    for name, value in desired.items():
        below = schema.fields[name] or DEDUCED
        if name in live:
            if not same_value(below, value, live[name]):
                return False
        elif not same_value(below, value, None):
            return False
    return all(name in desired or is_default(schema, name, value, desired) for name, value in live.items())


def is_default(schema: Schema, name: str, value: Any, desired: dict[str, Any]) -> bool:
    """Whether a value is the default that the API server fills in for an undeclared member."""
    # This default depends on another member; for a ServiceAccount it is empty.
    if name == "apiGroup" and schema.name == "io.k8s.api.rbac.v1.Subject":
        return desired.get("kind") in ("User", "Group") and value == RBAC_GROUP
    below = schema.fields[name] or DEDUCED
    if is_empty(below, value):
        return True
    return bool(value == DEFAULTS.get((schema.name, name), below.default))


def element(schema: Schema, item: Any) -> str | None:
    """Return the path element of an item of a keyed list or a set, None for an item that can have none."""
    keys = schema.keys
    if not keys:
        return None if item is None or type(item) in (dict, list) else element_of(schema, item)
    if type(item) is not dict:
        return None
    has_key = keys[0] in item or any(key in item for key in keys)
    if has_key or any(key_default(schema, key) is not None for key in keys):
        return element_of(schema, item)
    return None


def indexed(schema: Schema, items: list[Any]) -> dict[str, tuple[int, Any]] | None:
    """Return position and value of the items by their element, None where they are not distinct or have none."""
    items_by_element: dict[str, tuple[int, Any]] = {}
    for index, item in enumerate(items):
        name = element(schema, item)
        if name is None or name in items_by_element:
            return None
        items_by_element[name] = (index, item)
    return items_by_element


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
            # An object that sets nothing but its name owns nothing of its metadata.
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
    # ``not node``: a value that is owned as a whole has no members below it in the set.
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
            # Equal scalars, the common case, need no schema; by type, since True == 1.
            if (there != value or type(there) is not kind) and not same_value(fields[name] or DEDUCED, value, there):
                return False
        elif not _value(fields[name] or DEDUCED, value, there, below):
            return False
        owned -= 1
    # An item of a keyed list and a key of a map are members themselves, beside their fields.
    return owned == 0 or (owned == 1 and SELF in node)


def _list(schema: Schema, desired: list[Any], live: list[Any], node: Node) -> bool:
    """Compare items in the same order only; items that others inserted are left to the full comparison."""
    items = schema.items or DEDUCED
    keys = schema.keys
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
            continue
        # What is a member of both is compared below; a key that Git leaves out has its default.
        is_whole = keys[0] in want and (len(keys) == 1 or all(key in want for key in keys))
        if (not is_whole and element(schema, have) != name) or not _map(items, want, have, below):
            return False
    return True
