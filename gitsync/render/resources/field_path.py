"""Field paths of replacements: ``spec.containers.[name=web].image``, with indexes and ``*`` for every item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from gitsync.errors import InvalidInput
from gitsync.render.resources.field_spec import split_path
from gitsync.render.resources.selectors import compile_pattern
from gitsync.render.yaml.scalar_types import is_null, text_of


class Slot(NamedTuple):
    """A place in a manifest that can be read and written."""

    holder: Any
    key: Any
    is_new: bool = False


@lru_cache(maxsize=4096)
def split(path: str) -> tuple[str, ...]:
    r"""Return the parts of a path; brackets are one part, and ``\.`` is a literal dot."""
    parts: list[str] = []
    for piece in split_path(path, "."):
        # A dot inside brackets belongs to the value: ``[image=nginx:1.2]``.
        if parts and parts[-1].startswith("[") and not parts[-1].endswith("]"):
            parts[-1] += f".{piece}"
            if parts[-1].endswith("]") and "=" not in parts[-1]:
                parts[-1] = parts[-1][1:-1]
        else:
            parts.append(piece)
    return tuple(parts)


def lookup(value: Any, path: Sequence[str], default: Any = None) -> Any:
    """Return the value at a path, which may hold indexes, ``-`` for the last item, and ``[key=value]``."""
    for part in (part.strip() for part in path):
        if not part:
            continue
        key = key_of(value, part)
        if key is None:
            return default
        value = value[key]
    return value


def key_of(holder: Any, part: str) -> Any:
    """Return the key or index that a part of a path means in a collection, None where it has no such member."""
    if holder is None:
        return None
    # PathGetter takes a number for an index before any member of that name.
    if part.isdecimal() or part == "-":
        if not isinstance(holder, list):
            raise InvalidInput(f"{part} is an index, but {_shape(holder)} has none", hint="correct the path")
        index = len(holder) - 1 if part == "-" else int(part)
        return index if 0 <= index < len(holder) else None
    if _is_match(part):
        if not isinstance(holder, list):
            raise InvalidInput(f"{part} selects an item, but {_shape(holder)} has none", hint="correct the path")
        key, wanted = _key_value(part)
        return next((index for index, item in enumerate(holder) if _has(item, key, wanted)), None)
    if not isinstance(holder, dict):
        raise InvalidInput(f"{part} is not in {_shape(holder)}", hint="correct the path")
    return part if part in holder else None


def _has(item: Any, key: str, wanted: str) -> bool:
    if not key:
        return not isinstance(item, dict | list) and text_of(item) == wanted
    return isinstance(item, dict) and key in item and text_of(item[key]) == wanted


def slots(root: Any, path: Sequence[str], create: Callable[[], Any] | None = None) -> list[Slot]:
    """
    Return every place that a path leads to; with ``create``, missing parts are made and end in its value.

    ``*`` leads to every item of a list, and ``[key=value]`` to those whose value matches the expression.
    """
    return list(_walk(Slot({"": root}, ""), tuple(path), create))


def _walk(slot: Slot, path: tuple[str, ...], create: Callable[[], Any] | None) -> Iterator[Slot]:
    if not path:
        yield slot
        return
    node = slot.holder[slot.key]
    part = path[0]
    rest = path[1:]
    if part.isdecimal():
        yield from _index(slot, int(part), rest, create)
    elif _is_match(part):
        yield from _matching(slot, part, rest, create)
    elif not part:
        if isinstance(node, dict | list):
            raise InvalidInput(f"an empty part of the path leads to {_shape(node)}", hint="correct the path")
        yield from _walk(slot, rest, create)
    elif part == "*":
        for position in range(len(_items(slot, part))):
            yield from _walk(Slot(node, position), rest, create)
    elif node is None and create is None:
        return
    else:
        members = _members(slot, part)
        is_new = part not in members
        if is_new:
            if create is None:
                return
            members[part] = _fresh(rest, create)
        yield from _walk(Slot(members, part, is_new), rest, create)


def _index(slot: Slot, index: int, rest: tuple[str, ...], create: Callable[[], Any] | None) -> Iterator[Slot]:
    items = _items(slot, str(index))
    is_new = index == len(items) and create is not None
    if is_new and create is not None:
        items.append(_fresh(rest, create))
    if index >= len(items):
        raise InvalidInput(f"the path names item {index}, but the list has {len(items)}", hint="correct the path")
    yield from _walk(Slot(items, index, is_new), rest, create)


def _matching(slot: Slot, part: str, rest: tuple[str, ...], create: Callable[[], Any] | None) -> Iterator[Slot]:
    key, wanted = _key_value(part)
    items = _items(slot, part)
    matches = list(_matches(items, key, wanted, rest, create))
    # A match that is absent is appended with its key, and the path continues below it.
    if not matches and create is not None:
        items.append({key: wanted} if key else wanted)
        matches = list(_matches(items, key, wanted, rest, create))
    yield from matches


def _matches(
    items: list[Any], key: str, wanted: str, rest: tuple[str, ...], create: Callable[[], Any] | None
) -> Iterator[Slot]:
    expression = _expression(wanted)
    for position, item in enumerate(items):
        if not key:
            if not isinstance(item, dict | list) and expression(text_of(item)):
                yield Slot(items, position)
        elif isinstance(item, dict) and key in item and expression(text_of(item[key])):
            yield from _walk(Slot(items, position), rest, create)


@lru_cache(maxsize=4096)
def _expression(wanted: str) -> Callable[[str], bool]:
    """Return whether a text contains what an expression matches, as Kustomize does."""
    # Nearly all are plain words, for which no regular expression is compiled.
    if wanted.replace("-", "").replace("_", "").replace("/", "").isalnum():
        return lambda text: wanted in text
    expression = compile_pattern(wanted)
    return lambda text: expression.search(text) is not None


def _members(slot: Slot, part: str) -> dict[str, Any]:
    node = slot.holder[slot.key]
    if isinstance(node, dict):
        return node
    # Kustomize takes a null for a collection, and then writes the null: what is put there is lost
    if is_null(slot.holder, slot.key):
        return {}
    raise InvalidInput(f"{part} is not in {_shape(node)}", hint="correct the path")


def _items(slot: Slot, part: str) -> list[Any]:
    node = slot.holder[slot.key]
    if isinstance(node, list):
        return node
    if is_null(slot.holder, slot.key):
        return []
    raise InvalidInput(f"{part} selects an item, but {_shape(node)} has none", hint="correct the path")


def _is_match(part: str) -> bool:
    return part.startswith("[") and part.endswith("]")


def _key_value(part: str) -> tuple[str, str]:
    key, equals, value = part[1:-1].partition("=")
    if not equals:
        raise InvalidInput(f"{part} is not of the form [key=value]", hint="correct the path")
    return key, value


def _fresh(rest: tuple[str, ...], create: Callable[[], Any]) -> Any:
    """Return what a missing part becomes, judged by the part that follows it."""
    if not any(rest):
        return create()
    return [] if _is_match(rest[0]) or rest[0].isdecimal() else {}


def _shape(value: Any) -> str:
    return "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else "a plain value"
