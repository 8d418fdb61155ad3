"""
Merge an applied value into a live one.

The result shares every unchanged part with its inputs: a merge that changes nothing returns the live value itself.
"""

from __future__ import annotations

import operator
from typing import Any, Final

from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of
from gitsync.merge.values import same

# Not None: a live null is a value that the applied one is merged into.
_ABSENT: Final = object()


def merge(schema: Schema, live: Any, applied: Any) -> Any:
    """
    Return the live value with an applied value merged into it.

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
            # [] over [] changes nothing; [] over null does.
            return live if type(live) is list else applied
        return _merge_lists(schema, ours, applied)
    if applied is None and live:
        # Null lies over a granular map or list without taking what is in it.
        if type(live) is dict and schema.is_map and not schema.map_atomic:
            return live
        if type(live) is list and schema.is_list and schema.list_type != "atomic" and not schema.is_map:
            return live
    # The live object for an equal value: callers recognize "no change" by identity.
    return live if same(live, applied) else applied


def _merge_maps(schema: Schema, ours: dict[str, Any] | None, live: Any, applied: dict[str, Any]) -> Any:
    if not ours:
        # {} over {} changes nothing; {} over null or a scalar does.
        return live if ours is not None and not applied else applied
    fields = schema.fields
    out = None
    for name, value in applied.items():
        live_value = ours.get(name, _ABSENT)
        if live_value is value:
            continue
        if live_value is _ABSENT:
            merged = value
        else:
            kind = type(value)
            if kind is str and live_value == value:
                continue
            below = fields[name]
            merged = merge(below, live_value, value) if below is not None else value
            if merged is live_value:
                continue
        if out is None:
            out = dict(ours)
        out[name] = merged
    return ours if out is None else out


def _merge_lists(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    items = schema.items or DEDUCED
    ours, ours_by = _index(schema, live)
    theirs, theirs_by = _index(schema, applied)
    out: list[Any] = []
    for element, position in _order(ours, theirs):
        if element in theirs_by:
            live_item = ours_by.get(element, _ABSENT)
            applied_item = theirs_by[element]
            out.append(applied_item if live_item is _ABSENT else merge(items, live_item, applied_item))
        else:
            out.append(live[position])
    unchanged = len(out) == len(live) and all(map(operator.is_, out, live))
    return live if unchanged else out


def _index(schema: Schema, values: list[Any]) -> tuple[list[str], dict[str, Any]]:
    """Return the elements of the items in order, and the item of each; a duplicate has None."""
    order = [element_of(schema, value) for value in values]
    by: dict[str, Any] = {}
    for element, value in zip(order, values, strict=True):
        by[element] = None if element in by else value
    return order, by


def _order(ours: list[str], theirs: list[str]) -> list[tuple[str, int]]:
    """
    Return the merged order of two lists of elements, each with its position in ours.

    Shared items have the order of theirs; each item that only ours has keeps its place after the one
    before it, as far as that order allows.
    """
    if ours == theirs:
        return [(element, i) for i, element in enumerate(ours)]
    # The algorithm of merge.go in structured-merge-diff, item for item: the order is visible to users.
    in_ours = set(ours)
    in_theirs = set(theirs)
    shared = [element for element in theirs if element in in_ours]
    awaited = 0
    merged: set[str] = set()
    out: list[tuple[str, int]] = []
    our_position = their_position = 0
    while our_position < len(ours) or their_position < len(theirs):
        if our_position < len(ours) and their_position < len(theirs):
            element = ours[our_position]
            if element == theirs[their_position]:
                merged.add(element)
                out.append((element, our_position))
                our_position += 1
                their_position += 1
                awaited += 1
                continue
            if element in in_theirs and awaited < len(shared) and shared[awaited] != element:
                our_position += 1  # it comes later, where theirs has it
                continue
        if our_position < len(ours):
            element = ours[our_position]
            if element not in in_theirs:
                out.append((element, our_position))
                our_position += 1
                continue
            if element in merged:
                our_position += 1
        if their_position < len(theirs):
            element = theirs[their_position]
            merged.add(element)
            # -1 is not read: an element of theirs is taken from the applied list.
            out.append((element, -1))
            their_position += 1
            if awaited < len(shared) and shared[awaited] == element:
                awaited += 1
    return out
