"""Compare two values of one type: which paths were added, modified and removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge.fieldset import MEMBER, SELF, FieldSet, Node
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of
from gitsync.merge.values import same

# Not None: an explicit null is a value and differs from a missing member.
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


def compare(schema: Schema, old: Any, new: Any) -> Comparison:
    """Return what changed between two values of one type."""
    differences = _Differences()
    if old is not new:
        _compare(schema, old, new, (), differences)
    return Comparison(FieldSet(differences.added), FieldSet(differences.modified), FieldSet(differences.removed))


def _insert(root: Node, path: tuple[str, ...]) -> None:
    """Add a path to a mutable root."""
    node = root
    for element in path[:-1]:
        below = node.get(element)
        if below is None or below is MEMBER:
            # MEMBER is one dict that all sets share: it is replaced here, never written to.
            below = node[element] = {} if below is None else {SELF: MEMBER}
        node = below
    if path:
        last = path[-1]
        below = node.get(last)
        if below:
            below[SELF] = MEMBER
        else:
            node[last] = MEMBER


def _compare(schema: Schema, old: Any, new: Any, path: tuple[str, ...], differences: _Differences) -> None:
    """Record the differences at a path; ``_ABSENT`` on one side means the other was added or removed."""
    if old is new:
        return
    ours = _shape(schema, old)
    theirs = _shape(schema, new)
    if ours and theirs and ours != theirs:
        # The type changed: what was below is gone, what is below now is new, and the path holds another value.
        for shape, old_side, new_side in ((ours, old, _ABSENT), (theirs, _ABSENT, new)):
            _compare_below(schema, shape, old_side, new_side, path, differences)
        _insert(differences.modified, path)
        return
    shape = ours or theirs
    # Two empty values have no members to compare; as wholes, {} and null still differ.
    if shape and (shape == "scalar" or not (_filled(old) or _filled(new))):
        shape = ""
    if shape:
        _compare_below(schema, shape, old, new, path, differences)
    # Also after its members: an added map or list is a path of its own beside them.
    if old is _ABSENT:
        _insert(differences.added, path)
    elif new is _ABSENT:
        _insert(differences.removed, path)
    elif not shape and not same(old, new):
        _insert(differences.modified, path)


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
    schema: Schema, shape: str, old: Any, new: Any, path: tuple[str, ...], differences: _Differences
) -> None:
    if shape == "map":
        _compare_maps(schema, old, new, path, differences)
    elif shape == "list":
        _compare_lists(schema, old, new, path, differences)


def _compare_maps(schema: Schema, old: Any, new: Any, path: tuple[str, ...], differences: _Differences) -> None:
    ours = old if type(old) is dict else {}
    theirs = new if type(new) is dict else {}
    for name, value in ours.items():
        other = theirs.get(name, _ABSENT)
        # The common case without a schema: parts that the merge shared, and equal strings.
        if other is value or (type(value) is str and value == other):
            continue
        below = schema.fields[name]
        if below is not None:
            _compare(below, value, other, (*path, f"f:{name}"), differences)
    for name, value in theirs.items():
        if name not in ours:
            below = schema.fields[name]
            if below is not None:
                _compare(below, _ABSENT, value, (*path, f"f:{name}"), differences)


def _compare_lists(schema: Schema, old: Any, new: Any, path: tuple[str, ...], differences: _Differences) -> None:
    items = schema.items or DEDUCED
    ours = _grouped(schema, old if type(old) is list else [])
    theirs = _grouped(schema, new if type(new) is list else [])
    for element, mine in ours.items():
        yours = theirs.get(element, [])
        where = (*path, element)
        if len(mine) <= 1 and len(yours) <= 1:
            _compare(items, mine[0], yours[0] if yours else _ABSENT, where, differences)
        # Duplicates have one path, so single items cannot be paired: all of them are one value.
        elif len(mine) >= 2 and len(yours) >= 2:
            if not same(mine, yours):
                _insert(differences.modified, where)
        # From several to one: the duplicates are removed and the one that remains counts as added (compare.go).
        elif len(mine) >= 2:
            if yours:
                _compare(items, _ABSENT, yours[0], where, differences)
            _insert(differences.removed, where)
        else:
            _compare(items, mine[0], _ABSENT, where, differences)
            _insert(differences.added, where)
    for element, yours in theirs.items():
        if element in ours:
            continue
        where = (*path, element)
        if len(yours) == 1:
            _compare(items, _ABSENT, yours[0], where, differences)
        else:
            _insert(differences.added, where)


def _grouped(schema: Schema, values: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for value in values:
        groups.setdefault(element_of(schema, value), []).append(value)
    return groups
