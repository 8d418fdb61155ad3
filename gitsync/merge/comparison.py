"""Compare two values of one type: which paths were added, modified and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge.fieldset import MEMBER, SELF, FieldSet, Node
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of
from gitsync.merge.values import same

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paths that one value has over another, lacks, or holds with another value."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def less(self, ignored: FieldSet) -> Comparison:
        """Return the comparison without some paths and what is below them."""
        if not ignored:
            return self
        return Comparison(self.added.without(ignored), self.modified.without(ignored), self.removed.without(ignored))

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


class _Differences:
    """The three sets during a comparison, as mutable roots."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.added: Node = {}
        self.modified: Node = {}
        self.removed: Node = {}


def compare(schema: Schema, before: Any, after: Any) -> Comparison:
    """Return what changed between two values of one type."""
    found = _Differences()
    if before is not after:
        _compare(schema, before, after, (), found)
    return Comparison(FieldSet(found.added), FieldSet(found.modified), FieldSet(found.removed))


def _insert(root: Node, path: tuple[str, ...]) -> None:
    """Add a path to a mutable root."""
    node = root
    for element in path[:-1]:
        below = node.get(element)
        if below is None or below is MEMBER:
            below = node[element] = {} if below is None else {SELF: MEMBER}
        node = below
    if path:
        last = path[-1]
        below = node.get(last)
        if below:
            below[SELF] = MEMBER
        else:
            node[last] = MEMBER


def _compare(schema: Schema, before: Any, after: Any, path: tuple[str, ...], found: _Differences) -> None:
    """Record the differences at a path; ``_ABSENT`` on one side means the other was added or removed."""
    if before is after:
        return
    ours, theirs = _shape(schema, before), _shape(schema, after)
    if ours and theirs and ours != theirs:
        # The type changed: what was below is gone, what is below now is new, and the path holds another value.
        for shape, left, right in ((ours, before, _ABSENT), (theirs, _ABSENT, after)):
            _compare_below(schema, shape, left, right, path, found)
        _insert(found.modified, path)
        return
    shape = ours or theirs
    if shape and (shape == "scalar" or not (_filled(before) or _filled(after))):
        shape = ""
    if shape:
        _compare_below(schema, shape, before, after, path, found)
    if before is _ABSENT:
        _insert(found.added, path)
    elif after is _ABSENT:
        _insert(found.removed, path)
    elif not shape and not same(before, after):
        _insert(found.modified, path)


def _shape(schema: Schema, value: Any) -> str:
    """Return how a value is compared: by members (map), by items (list), or as a whole; empty for nothing."""
    if value is None or value is _ABSENT:
        return ""
    if type(value) is dict and schema.is_map and not schema.map_atomic:
        return "map"
    if type(value) is list and schema.is_list and schema.list_type != "atomic":
        return "list"
    return "scalar"


def _filled(value: Any) -> bool:
    return type(value) in (dict, list) and bool(value)


def _compare_below(
    schema: Schema, shape: str, before: Any, after: Any, path: tuple[str, ...], found: _Differences
) -> None:
    if shape == "map":
        _compare_maps(schema, before, after, path, found)
    elif shape == "list":
        _compare_lists(schema, before, after, path, found)


def _compare_maps(schema: Schema, before: Any, after: Any, path: tuple[str, ...], found: _Differences) -> None:
    ours = before if type(before) is dict else {}
    theirs = after if type(after) is dict else {}
    for name, value in ours.items():
        other = theirs.get(name, _ABSENT)
        if other is value or (type(value) is str and value == other):
            continue
        below = schema.fields[name]
        if below is not None:
            _compare(below, value, other, (*path, f"f:{name}"), found)
    for name, value in theirs.items():
        if name not in ours:
            below = schema.fields[name]
            if below is not None:
                _compare(below, _ABSENT, value, (*path, f"f:{name}"), found)


def _compare_lists(schema: Schema, before: Any, after: Any, path: tuple[str, ...], found: _Differences) -> None:
    items = schema.items or DEDUCED
    ours = _grouped(schema, before if type(before) is list else [])
    theirs = _grouped(schema, after if type(after) is list else [])
    for element, mine in ours.items():
        yours = theirs.get(element, [])
        where = (*path, element)
        if len(mine) <= 1 and len(yours) <= 1:
            _compare(items, mine[0], yours[0] if yours else _ABSENT, where, found)
        elif len(mine) >= 2 and len(yours) >= 2:
            if not same(mine, yours):
                _insert(found.modified, where)
        elif len(mine) >= 2:
            if yours:
                _compare(items, _ABSENT, yours[0], where, found)
            _insert(found.removed, where)
        else:
            _compare(items, mine[0], _ABSENT, where, found)
            _insert(found.added, where)
    for element, yours in theirs.items():
        if element in ours:
            continue
        where = (*path, element)
        if len(yours) == 1:
            _compare(items, _ABSENT, yours[0], where, found)
        else:
            _insert(found.added, where)


def _grouped(schema: Schema, values: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for value in values:
        groups.setdefault(element_of(schema, value), []).append(value)
    return groups
