"""The structural schema of a custom resource, read once into nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_META_MEMBERS = ("apiVersion", "kind", "metadata")


@dataclass(slots=True, eq=False)
class SchemaNode:
    """One level of a schema; ``raw`` is the JSON schema with the value rules that are left."""

    raw: Mapping[str, Any]
    type: str = ""
    properties: dict[str, SchemaNode] = field(default_factory=dict)
    additional: SchemaNode | None = None
    items: SchemaNode | None = None
    nullable: bool = False
    preserves: bool = False
    embedded: bool = False
    int_or_string: bool = False
    open_map: bool = False
    """``additionalProperties: true``: any member, with any value."""
    has_default: bool = False
    default: Any = None
    rules: tuple[Mapping[str, Any], ...] = ()
    has_rules: bool = False
    """This node or one below it has rules."""
    has_defaults: bool = False
    """This node or one below it has a default, or drops nulls."""


def compile_schema(raw: Mapping[str, Any], *, root: bool = True) -> SchemaNode:
    """Return the node of a schema; the root of an ``openAPIV3Schema`` is a whole object."""
    node = _compile(raw)
    node.embedded = node.embedded or root
    return node


def _compile(raw: Mapping[str, Any]) -> SchemaNode:
    additional = raw.get("additionalProperties")
    node = SchemaNode(
        raw=raw,
        type=raw.get("type", ""),
        properties={name: _compile(schema) for name, schema in (raw.get("properties") or {}).items()},
        additional=_compile(additional) if isinstance(additional, dict) else None,
        items=_compile(raw["items"]) if isinstance(raw.get("items"), dict) else None,
        nullable=bool(raw.get("nullable")),
        preserves=bool(raw.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(raw.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(raw.get("x-kubernetes-int-or-string")),
        open_map=additional is True,
        has_default="default" in raw,
        default=raw.get("default"),
        rules=tuple(raw.get("x-kubernetes-validations") or ()),
    )
    below = [*node.properties.values(), *(child for child in (node.additional, node.items) if child)]
    node.has_rules = bool(node.rules) or any(child.has_rules for child in below)
    # Also without any default: a null below may have to be dropped.
    node.has_defaults = bool(below)
    return node


def child_of(node: SchemaNode, name: str) -> SchemaNode | None:
    """Return the schema of a member, None when there is none."""
    return node.properties.get(name) or node.additional


def unknown_fields(node: SchemaNode, value: Any) -> list[str]:
    """Return the paths of the members that the schema does not declare, sorted as PruneWithOptions sorts them."""
    paths: list[str] = []
    _find_unknown(node, value, "", paths)
    return sorted(paths)


def _find_unknown(node: SchemaNode, value: Any, path: str, paths: list[str]) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            if node.embedded and name in _META_MEMBERS:
                continue
            child = child_of(node, name)
            where = f"{path}.{name}" if path else name
            if child is not None:
                _find_unknown(child, item, where, paths)
            elif not (node.preserves or node.open_map):
                paths.append(where)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            _find_unknown(node.items, item, f"{path}[{index}]", paths)


def prune(node: SchemaNode, value: Any) -> Any:
    """Return the value without the members that the schema does not declare."""
    if isinstance(value, dict):
        out = {}
        for name, item in value.items():
            child = child_of(node, name)
            if child is not None and not (node.embedded and name in _META_MEMBERS):
                out[name] = prune(child, item)
            elif node.preserves or node.open_map or (node.embedded and name in _META_MEMBERS):
                out[name] = item
        return out
    if isinstance(value, list) and node.items is not None:
        return [prune(node.items, item) for item in value]
    return value


def with_defaults(node: SchemaNode, value: Any) -> Any:
    """
    Return the value with its defaults, itself when nothing changes.

    A null that may not be is dropped, or becomes the default.
    """
    if not node.has_defaults:
        return value
    if isinstance(value, dict):
        return _object_with_defaults(node, value)
    if isinstance(value, list) and node.items is not None:
        items = [_item_with_defaults(node.items, item) for item in value]
        return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def _item_with_defaults(node: SchemaNode, item: Any) -> Any:
    if item is None and node.has_default and not node.nullable:
        item = node.default
    return with_defaults(node, item)


def _object_with_defaults(node: SchemaNode, value: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    changed = False
    for name, item in value.items():
        child = child_of(node, name)
        if child is None or (node.embedded and name in _META_MEMBERS):
            out[name] = item
            continue
        if item is None and not child.nullable:
            changed = True
            if child.has_default:
                out[name] = with_defaults(child, child.default)
            continue
        done = with_defaults(child, item)
        changed = changed or done is not item
        out[name] = done
    for name, child in node.properties.items():
        if child.has_default and name not in value:
            out[name] = with_defaults(child, child.default)
            changed = True
    return out if changed else value
