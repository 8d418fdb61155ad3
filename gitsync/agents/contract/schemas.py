"""
JSON Schemas of tools: whether a changed one accepts more, and the texts in it that a model reads.

Keywords are those of draft 2020-12, which MCP names. A change that is not understood counts as wider: what cannot be
shown to be harmless is reviewed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitsync.agents.contract.canonical import canonical

_TEXTS: Final = frozenset({"title", "description", "default", "examples", "$comment"})
"""Keywords that validate nothing; models read them."""
_IDENTITY: Final = frozenset({"$schema", "$id", "$anchor", "$defs", "definitions", "deprecated"})
_SETS: Final = frozenset({"required", "enum", "anyOf", "oneOf", "allOf"})
_NAMED: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose members are names with a schema each."""
_NESTED: Final = ("items", "additionalProperties", "contains", "not", "propertyNames", "if", "then", "else")
_LISTED: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_UPPER: Final = frozenset({"maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains"})
_LOWER: Final = frozenset({"minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains"})
_TYPES: Final = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_DEEPEST: Final = 20
"""Levels of references that are replaced by what they name; the rest is compared as it is."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of a schema: the path in it, whether it accepts more, and what changed."""

    path: str
    is_wider: bool
    message: str


def in_order(schema: Any) -> Any:
    """Return a schema whose lists without an order are sorted: ``required``, ``enum``, types and alternatives."""
    if isinstance(schema, list):
        return [in_order(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    ordered = {name: in_order(value) for name, value in schema.items()}
    for name, value in ordered.items():
        # A property may have the name of a keyword; its schema is not a list.
        if isinstance(value, list) and (name in _SETS or name == "type"):
            ordered[name] = sorted(value, key=canonical)
    return ordered


def texts_of(schema: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the words of each text in a schema that a model reads."""
    if not isinstance(schema, dict):
        return
    for name in sorted(_TEXTS & schema.keys()):
        value = schema[name]
        yield _joined(path, name), value if isinstance(value, str) else canonical(value)
    for name, below in _below(schema):
        yield from texts_of(below, _joined(path, name))


def changes(old: Any, new: Any) -> tuple[SchemaChange, ...]:
    """Return how a schema changed in what it accepts; empty where only its order or its texts did."""
    return tuple(_changes(_structure(_resolved(old, old, 0)), _structure(_resolved(new, new, 0)), ""))


def shape(schema: Any) -> str:
    """Return the structure of a schema as text: equal for schemas that accept the same, whatever their words."""
    return canonical(_structure(_resolved(schema, schema, 0)))


def _below(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in _NAMED:
        members = schema.get(keyword)
        if isinstance(members, dict):
            yield from ((f"{keyword}.{name}", members[name]) for name in sorted(members))
    for keyword in _NESTED:
        if isinstance(schema.get(keyword), dict):
            yield keyword, schema[keyword]
    for keyword in _LISTED:
        members = schema.get(keyword)
        if isinstance(members, list):
            yield from ((f"{keyword}[{index}]", member) for index, member in enumerate(members))


def _resolved(schema: Any, root: Any, depth: int) -> Any:
    """Return a schema with local references replaced, so that moving a definition changes nothing."""
    if isinstance(schema, list):
        return [_resolved(item, root, depth) for item in schema]
    if not isinstance(schema, dict):
        return schema
    target = schema.get("$ref")
    if isinstance(target, str) and target.startswith("#/") and depth < _DEEPEST:
        named = _named(root, target)
        if named is not None:
            # Members beside a reference apply too (draft 2020-12).
            beside = {name: value for name, value in schema.items() if name != "$ref"}
            return _resolved({**named, **beside}, root, depth + 1)
    return {
        name: value if name in ("$defs", "definitions") else _resolved(value, root, depth)
        for name, value in schema.items()
    }


def _named(root: Any, pointer: str) -> dict[str, Any] | None:
    value = root
    for part in pointer.removeprefix("#/").split("/"):
        # Escapes of JSON Pointer (RFC 6901).
        value = value.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else None


def _structure(schema: Any) -> Any:
    """Return a schema without texts and order."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name not in _TEXTS | _IDENTITY}
    for keyword in _NAMED:
        if isinstance(kept.get(keyword), dict):
            kept[keyword] = {name: _structure(value) for name, value in kept[keyword].items()}
    for keyword in _NESTED:
        if isinstance(kept.get(keyword), dict):
            kept[keyword] = _structure(kept[keyword])
    for keyword in _LISTED:
        if isinstance(kept.get(keyword), list):
            kept[keyword] = [_structure(value) for value in kept[keyword]]
    if "const" in kept:
        # The same as a list of one value.
        kept["enum"] = [kept.pop("const")]
    if kept.get("additionalProperties") is True or kept.get("additionalProperties") == {}:
        kept.pop("additionalProperties")
    if kept.get("required") == []:
        kept.pop("required")
    return in_order(kept)


def _changes(old: Any, new: Any, path: str) -> Iterator[SchemaChange]:
    if canonical(old) == canonical(new):
        return
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield SchemaChange(path, is_wider=True, message="changed")
        return
    yield from _types(old, new, path)
    yield from _properties(old, new, path)
    handled = {"type", "properties", "required"}
    for keyword in sorted((old.keys() | new.keys()) - handled):
        if canonical(old.get(keyword)) != canonical(new.get(keyword)):
            yield from _keyword(keyword, old.get(keyword), new.get(keyword), _joined(path, keyword))


def _types(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    before = _type_names(old)
    after = _type_names(new)
    if added := after - before:
        yield SchemaChange(path, is_wider=True, message=f"accepts {', '.join(sorted(added))} too")
    if removed := before - after:
        yield SchemaChange(path, is_wider=False, message=f"accepts {', '.join(sorted(removed))} no more")


def _type_names(schema: Mapping[str, Any]) -> frozenset[str]:
    declared = schema.get("type")
    names = frozenset([declared] if isinstance(declared, str) else map(str, declared or _TYPES))
    # Each integer is a number.
    return names | {"integer"} if "number" in names else names


def _properties(old: Mapping[str, Any], new: Mapping[str, Any], path: str) -> Iterator[SchemaChange]:
    before = old.get("properties") or {}
    after = new.get("properties") or {}
    for name in sorted(after.keys() - before.keys()):
        # Also where additional ones were allowed: a model fills in what the schema names.
        yield SchemaChange(_joined(path, name), is_wider=True, message="new member")
    for name in sorted(before.keys() - after.keys()):
        yield SchemaChange(_joined(path, name), is_wider=False, message="removed member")
    for name in sorted(before.keys() & after.keys()):
        yield from _changes(before[name], after[name], _joined(path, name))
    required = set(old.get("required") or ())
    now_required = set(new.get("required") or ())
    for name in sorted(required - now_required):
        yield SchemaChange(_joined(path, name), is_wider=True, message="not required any more")
    for name in sorted(now_required - required):
        yield SchemaChange(_joined(path, name), is_wider=False, message="required now")


def _keyword(keyword: str, old: Any, new: Any, path: str) -> Iterator[SchemaChange]:
    """Yield the change of one keyword, which is absent where its value is None."""
    if keyword in _NESTED and keyword != "not" and isinstance(old, dict) and isinstance(new, dict):
        yield from _changes(old, new, path)
    elif keyword in ("enum", "anyOf", "oneOf") and isinstance(old, list) and isinstance(new, list):
        before = set(map(canonical, old))
        after = set(map(canonical, new))
        if after - before:
            yield SchemaChange(path, is_wider=True, message=f"{len(after - before)} more")
        if before - after:
            yield SchemaChange(path, is_wider=False, message=f"{len(before - after)} fewer")
    elif keyword in _UPPER | _LOWER and _is_number(old) and _is_number(new):
        is_wider = new > old if keyword in _UPPER else new < old
        yield SchemaChange(path, is_wider=is_wider, message=f"{old} is now {new}")
    # A limit that appears only restricts; of conditions this is not known.
    elif old is None and keyword in _RESTRICTING:
        yield SchemaChange(path, is_wider=False, message="new restriction")
    else:
        yield SchemaChange(path, is_wider=True, message="changed" if new is not None else "removed")


_RESTRICTING: Final = (
    _UPPER
    | _LOWER
    | {"enum", "anyOf", "oneOf", "allOf", "pattern", "format", "multipleOf", "items", "additionalProperties"}
    | {"propertyNames", "not", "uniqueItems", "contains", "dependentRequired"}
)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
