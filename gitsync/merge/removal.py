"""Remove paths from a value, and adapt a set of paths to the schema first."""

from __future__ import annotations

from typing import Any

from gitsync.merge.fieldset import MEMBER, SELF, Node, is_member, member
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import element_of


def remove(schema: Schema, value: Any, gone: Node) -> Any:
    """
    Return a value without the members of a set; what is below them is removed too.

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
        items = schema.items or DEDUCED
        kept_items = []
        for item in value:
            node = gone.get(element_of(schema, item))
            if node is None:
                kept_items.append(item)
            elif not is_member(node):
                kept_items.append(remove(items, item, node))
        return kept_items or None
    return value


def with_named_fields(schema: Schema, node: Node) -> Node:
    """Return a root in which each declared field that has members below it is a member as well."""
    out = None
    for element, below in node.items():
        if not below or element == SELF:
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
    Return a manager's set converted to its current type: where a type became atomic, its parts become one member.

    The same root is returned when nothing changed. A type that became granular stays as it was owned.
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
