"""Field paths as the API server spells them, ``.spec.containers[name="web"].image``, followed into a document."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

import orjson

Path: TypeAlias = tuple[str | int, ...]

_QUOTED: Final = re.compile(r'\["((?:[^"\\]|\\.)*)"\]')
_SELECTOR: Final = re.compile(r'\[((?:[^\]"]|"(?:[^"\\]|\\.)*")*)\]')
_PAIR: Final = re.compile(r'([^=,]*)=("(?:[^"\\]|\\.)*"|[^,]*),?')


def follow(document: Any, field: str) -> tuple[Path, bool]:
    """
    Return the part of a field's path that a document has, items by index, and whether that is all of it.

    A name may hold dots, which are not escaped in a path: the longest name that the document has is meant.
    """
    path: list[str | int] = []
    value, rest = document, field
    while rest:
        step, length = _member(value, rest) if isinstance(value, dict) else _item(value, rest)
        if step is None:
            return tuple(path), False
        path.append(step)
        value, rest = value[step], rest[length:]
    return tuple(path), True


def _member(value: dict[str, Any], rest: str) -> tuple[str | None, int]:
    """Return the name that a path goes on with, and how long it is there."""
    quoted = _QUOTED.match(rest)
    if quoted:
        name = quoted[1].replace('\\"', '"')
        return (name if name in value else None), quoted.end()
    names = (
        name
        for name in value
        if rest.startswith(f".{name}") and (len(rest) == len(name) + 1 or rest[len(name) + 1] in ".[")
    )
    found = max(names, key=len, default=None)
    return found, len(found) + 1 if found is not None else 0


def _item(value: Any, rest: str) -> tuple[int | None, int]:
    """Return the index of the item that ``[0]``, ``[name="web"]`` or ``[="x"]`` selects."""
    selector = _SELECTOR.match(rest)
    if selector is None or not isinstance(value, list):
        return None, 0
    if selector[1].isdigit():
        index = int(selector[1])
        return (index if index < len(value) else None), selector.end()
    try:
        wanted = {key: orjson.loads(text) for key, text in _PAIR.findall(selector[1])}
    except orjson.JSONDecodeError:
        return None, 0
    matches = (index for index, item in enumerate(value) if _is_meant(item, wanted))
    return next(matches, None), selector.end()


def _is_meant(item: Any, wanted: dict[str, Any]) -> bool:
    if "" in wanted:
        return bool(item == wanted[""])
    return isinstance(item, dict) and all(
        item.get(key) == value or (key == "protocol" and value == "TCP" and key not in item)
        for key, value in wanted.items()
    )
