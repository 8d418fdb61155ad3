"""The path elements of list items, also of malformed items."""

from __future__ import annotations

from typing import Any

from gitsync.merge.schema import Schema
from gitsync.merge.typed import element_of, key_default


def element(schema: Schema, item: Any) -> str | None:
    """Return the path element of an item of a keyed list or a set, None for an item that can have none."""
    if not schema.keys:
        return None if item is None or type(item) in (dict, list) else element_of(schema, item)
    if type(item) is not dict:
        return None
    has_key = schema.keys[0] in item or any(key in item for key in schema.keys)
    if has_key or any(key_default(schema, key) is not None for key in schema.keys):
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
