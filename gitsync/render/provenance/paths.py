"""Paths of fields that stay the same while items of lists are added, removed and moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from gitsync.objects.manifest import Manifest
from gitsync.render.yaml.scalar_types import text_of

FieldPath: TypeAlias = tuple[str, ...]
"""The parts of a path; an item of a list is ``[name=web]`` or ``[port=53,protocol=UDP]``, else its index."""

_KEYS: Final = ("name", "mountPath", "containerPort", "port", "key", "type", "ip", "uid", "protocol", "effect")
"""Members that tell the items of a list apart, the first ones of an item before the others."""


def leaves_of(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Any]]:
    """Yield the path of each plain value, and of each empty collection."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves_of(item, (*path, key))
    elif isinstance(value, list) and value:
        for part, item in zip(_parts(value), value, strict=True):
            yield from leaves_of(item, (*path, part))
    else:
        yield path, value


def lists_of(value: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, list[str]]]:
    """Yield the path of each list, the outer one first, and the parts of its items."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from lists_of(item, (*path, key))
    elif isinstance(value, list):
        parts = _parts(value)
        yield path, parts
        for part, item in zip(parts, value, strict=True):
            yield from lists_of(item, (*path, part))


def _parts(items: list[Any]) -> list[str]:
    """Return the part of a path for each item of a list: as few of its keys as it has alone, else its index."""
    names = [_names(item) for item in items]
    count = Counter(name for of_item in names for name in of_item)
    # As few keys as tell it apart: two ports may differ in their protocol alone.
    return [next((name for name in of_item if count[name] == 1), str(index)) for index, of_item in enumerate(names)]


def _names(item: Any) -> list[str]:
    """Return the parts that may mean an item: by its first key, by its first two, and so on."""
    if not isinstance(item, dict):
        return []
    keys = (key for key in _KEYS if item.get(key) not in (None, "") and not isinstance(item[key], dict | list))
    pairs = [f"{key}={text_of(item[key])}" for key in keys]
    return [f"[{','.join(pairs[: count + 1])}]" for count in range(len(pairs))]


def indexes(value: Any, path: FieldPath) -> tuple[str | int, ...]:
    """Return a path in which items are indexes, as far as the value has it."""
    parts: list[str | int] = []
    for part in path:
        if isinstance(value, dict) and part in value:
            parts.append(part)
            value = value[part]
        elif isinstance(value, list):
            index = _index(value, part)
            if index is None:
                break
            parts.append(index)
            value = value[index]
        else:
            break
    return tuple(parts)


def with_all_keys(manifest: Manifest, path: FieldPath) -> FieldPath:
    """Return a path in which items are named by all their keys: a patch may name them by any of them."""
    parts: list[str] = []
    value: Any = manifest
    for part in path:
        key = _index(value, part) if isinstance(value, list) else part
        value = value[key]
        names = _names(value) if isinstance(key, int) and not part.isdecimal() else []
        parts.append(names[-1] if names else part)
    return tuple(parts)


def _index(items: list[Any], part: str) -> int | None:
    """Return the index of the item that a part means; the part may name more keys than the item has."""
    if part.isdecimal():
        return int(part) if int(part) < len(items) else None
    names = [_names(item) for item in items]
    exact = (index for index, of_item in enumerate(names) if part in of_item)
    fewer = (index for index, of_item in enumerate(names) if of_item and _pairs(of_item[-1]) <= _pairs(part))
    return next(exact, next(fewer, None))


def _pairs(part: str) -> set[str]:
    return set(part[1:-1].split(","))


def starts_with(leaf: FieldPath, path: FieldPath, leaves: Mapping[FieldPath, Any]) -> bool:
    """Return whether a leaf is at or below a path, in which an index, or more or fewer keys, may mean an item."""
    if len(leaf) < len(path):
        return False
    for depth, (part, wanted) in enumerate(zip(leaf, path, strict=False)):
        if part == wanted or _is_alike(part, wanted):
            continue
        if not (part.startswith("[") and wanted.isdecimal()):
            return False
        items = list(
            dict.fromkeys(other[depth] for other in leaves if other[:depth] == leaf[:depth] and len(other) > depth)
        )
        if items.index(part) != int(wanted):
            return False
    return True


def _is_alike(part: str, wanted: str) -> bool:
    """Return whether one of two parts is the other with further keys."""
    return part.startswith(f"{wanted[:-1]},") or wanted.startswith(f"{part[:-1]},")
