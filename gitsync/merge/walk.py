"""
What structured merge does with two values of one type: merge, compare, remove.

Results share every unchanged part with their inputs, so a merge that changes nothing is the very object it
began with, and comparing skips what is identical.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gitsync.merge import quantity
from gitsync.merge.fieldset import MEMBER, SELF, FieldSet, Node, is_member, member
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import TypedError, element_of, go

_ABSENT: Final = object()


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, and never equal to booleans."""
    if a is b:
        return True
    if a != b:
        return False
    kind = type(a)
    if kind is dict:
        return all(same(value, b[key]) for key, value in a.items())
    if kind is list:
        return all(map(same, a, b))
    return (kind is bool) is (type(b) is bool)


# --- merge


def merge(schema: Schema, live: Any, applied: Any) -> Any:
    """
    Return live with an applied value laid over it.

    Members and items that are not applied stay; the applied order of items wins over the live order.
    """
    if live is applied:
        return live
    kind = type(applied)
    if kind is dict and schema.is_map and not schema.map_atomic:
        return _merge_maps(schema, live if type(live) is dict else None, live, applied)
    if kind is list and schema.list_type != "atomic" and schema.is_list:
        ours = live if type(live) is list else []
        if not ours and not applied:
            return live if type(live) is list else applied
        return _merge_lists(schema, ours, applied)
    if applied is None and live:
        # Null lies over a granular map or list without taking what is in it.
        if type(live) is dict and schema.is_map and not schema.map_atomic:
            return live
        if type(live) is list and schema.is_list and schema.list_type != "atomic" and not schema.is_map:
            return live
    if kind is not dict and kind is not list and applied is not None and type(live) in (dict, list):
        raise TypedError((f"lhs: expected any scalar, got &{{{go(live)}}}",))
    return live if _same_leaf(schema, live, applied) else applied


def _same_leaf(schema: Schema, a: Any, b: Any) -> bool:
    """Whether two leaves are equal; quantities are when their amounts are, because only one spelling is stored."""
    if schema.format == "quantity" and type(a) is str and type(b) is str:
        return a == b or quantity.equal(a, b)
    return same(a, b)


def _merge_maps(schema: Schema, ours: dict[str, Any] | None, live: Any, applied: dict[str, Any]) -> Any:
    if not ours:
        return live if ours is not None and not applied else applied
    fields = schema.fields
    out = None
    for name, value in applied.items():
        before = ours.get(name, _ABSENT)
        if before is value:
            continue
        if before is _ABSENT:
            after = value
        else:
            kind = type(value)
            if kind is str and before == value:
                continue
            below = fields[name]
            after = merge(below, before, value) if below is not None else value
            if after is before:
                continue
        if out is None:
            out = dict(ours)
        out[name] = after
    return ours if out is None else out


def _merge_lists(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    items = schema.items
    assert items is not None
    ours, ours_by = _index(schema, live)
    theirs, theirs_by = _index(schema, applied)
    out: list[Any] = []
    for element, position in _order(ours, theirs):
        if element in theirs_by:
            before = ours_by.get(element, _ABSENT)
            after = theirs_by[element]
            out.append(after if before is _ABSENT else merge(items, before, after))
        else:
            out.append(live[position])
    unchanged = len(out) == len(live) and all(map(_is, out, live))
    return live if unchanged else out


def _is(a: Any, b: Any) -> bool:
    return a is b


def _index(schema: Schema, values: list[Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the elements of the items in order, and the item of each; a duplicate stands for nothing (None)."""
    order = [element_of(schema, value) for value in values]
    by: dict[str, Any] = {}
    for element, value in zip(order, values, strict=True):
        by[element] = None if element in by else value
    return order, by


def _order(ours: list[str], theirs: list[str]) -> list[tuple[str, int]]:
    """
    Return the merged order of two lists of elements, each with its position in ours.

    Shared items stand in the order of theirs; each item that only ours has keeps its place after the one
    before it, as far as that order allows.
    """
    if ours == theirs:
        return [(element, i) for i, element in enumerate(ours)]
    in_ours, in_theirs = set(ours), set(theirs)
    shared = [element for element in theirs if element in in_ours]
    awaited = 0
    merged: set[str] = set()
    out: list[tuple[str, int]] = []
    left = right = 0
    while left < len(ours) or right < len(theirs):
        if left < len(ours) and right < len(theirs):
            element = ours[left]
            if element == theirs[right]:
                merged.add(element)
                out.append((element, left))
                left += 1
                right += 1
                awaited += 1
                continue
            if element in in_theirs and awaited < len(shared) and shared[awaited] != element:
                left += 1  # it comes later, where theirs has it
                continue
        if left < len(ours):
            element = ours[left]
            if element not in in_theirs:
                out.append((element, left))
                left += 1
                continue
            if element in merged:
                left += 1
        if right < len(theirs):
            element = theirs[right]
            merged.add(element)
            out.append((element, -1))
            right += 1
            if awaited < len(shared) and shared[awaited] == element:
                awaited += 1
    return out


# --- compare


@dataclass(frozen=True, slots=True)
class Comparison:
    """The paths that one value has over another, lacks, or holds with another value."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    def less(self, ignored: FieldSet) -> Comparison:
        """Return the comparison without some paths and what is below them."""
        return Comparison(self.added.without(ignored), self.modified.without(ignored), self.removed.without(ignored))

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


class _Differences:
    """The three sets while a comparison goes on, as roots that are still written to."""

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
    """Add a path to a root that only this module holds."""
    node = root
    for element in path[:-1]:
        below = node.get(element)
        if below is None or below is MEMBER:
            below = node[element] = {} if below is None else {".": MEMBER}
        node = below
    if path:
        last = path[-1]
        below = node.get(last)
        if below is None:
            node[last] = MEMBER
        elif below:
            below["."] = MEMBER


def _compare(schema: Schema, before: Any, after: Any, path: tuple[str, ...], found: _Differences) -> None:
    """Record the differences at a path; ``_ABSENT`` on one side means that the other side is all new or gone."""
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
    elif not shape and not _same_leaf(schema, before, after):
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
    items = schema.items
    assert items is not None
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


# --- remove


def remove(schema: Schema, value: Any, gone: Node) -> Any:
    """
    Return a value without the members of a set; what is below them goes too.

    A map or list from which everything was removed becomes None: the API server decodes that as absent.
    """
    if not gone:
        return value
    if type(value) is dict and schema.is_map:
        if schema.map_atomic:
            return None
        kept: dict[str, Any] = {}
        for name, child in value.items():
            node = gone.get(f"f:{name}")
            if node is None:
                kept[name] = child
            elif not is_member(node):
                below = schema.fields[name]
                kept[name] = remove(below, child, node) if below is not None else child
        return kept or None
    if type(value) is list and schema.is_list:
        if schema.list_type == "atomic":
            return None
        items = schema.items
        assert items is not None
        left = []
        for item in value:
            node = gone.get(element_of(schema, item))
            if node is None:
                left.append(item)
            elif not is_member(node):
                left.append(remove(items, item, node))
        return left or None
    return value


# --- sets along a schema


def with_named_fields(schema: Schema, node: Node) -> Node:
    """Return a root in which each declared field that has members below it is a member as well."""
    out = None
    for element, below in node.items():
        if not below or element == ".":
            continue
        after = below
        name = element[2:]
        child = schema.items if element[0] != "f" else schema.fields[name]
        if child is not None:
            after = with_named_fields(child, below)
        if element[0] == "f" and name in schema.declared:
            after = member(after)
        if after is not below:
            if out is None:
                out = dict(node)
            out[element] = after
    return node if out is None else out


def reconciled(schema: Schema, root: Node) -> Node:
    """
    Return a manager's set as its type is now: where a type became atomic, its parts become one member.

    The very same root is returned when nothing changed. A type that became granular stays as it was owned.
    """
    out = None
    for element, below in root.items():
        if not below or element == SELF:
            continue
        child = schema.fields[element[2:]] if element[0] == "f" else schema.items
        if child is None or child is DEDUCED:
            continue
        atomic = child.map_atomic if child.is_map else child.is_list and child.list_type == "atomic"
        after = MEMBER if atomic else reconciled(child, below)
        if after is not below:
            if out is None:
                out = dict(root)
            out[element] = after
    return root if out is None else out
