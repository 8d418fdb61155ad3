"""The path elements of list items, also of malformed items."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from gitsync.merge.fieldset import key_element
from gitsync.merge.schema import Schema
from gitsync.merge.typed import element_of, key_default


def element(schema: Schema, item: Any) -> str | None:
    """Return the path element of an item of a keyed list or a set, None for an item that can have none."""
    if not schema.keys:
        return None if item is None or type(item) in (dict, list) else element_of(schema, item)
    if type(item) is not dict:
        return None
    if len(schema.keys) == 1 and type(value := item.get(schema.keys[0])) is str:
        return _named(schema.keys[0], value)
    if any(key in item for key in schema.keys) or any(key_default(schema, key) is not None for key in schema.keys):
        return element_of(schema, item)
    return None


@lru_cache(maxsize=8192)
def _named(key: str, name: str) -> str:
    """Return the element of most items: those with one key, such as containers and variables, which recur."""
    return key_element({key: name})


def indexed(schema: Schema, items: list[Any]) -> dict[str, tuple[int, Any]] | None:
    """Return position and value of the items by their element, None where they are not distinct or have none."""
    found: dict[str, tuple[int, Any]] = {}
    for index, item in enumerate(items):
        name = element(schema, item)
        if name is None or name in found:
            return None
        found[name] = (index, item)
    return found
