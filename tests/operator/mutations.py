"""Single changes of an Agent, generated from its schema: every property unset, set, at its extremes, and invalid."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, NamedTuple

from gitsync.crds import definitions
from gitsync.objects.manifest import Manifest, at

Path = tuple[str | int, ...]
Schema = dict[str, Any]

_TEXTS = (
    "10Gi",
    "helper",
    "registry.internal/agents/other:2",
    "/other",
    "https://other.example.com/v1",
    "10.0.0.0/8",
    "0.5",
    "KEY",
    "a" * 64,
    "oci://registry.internal/models/other:1",
)
"""Texts of which one matches each pattern of the schema."""

_OUTSIDE = (("below", "minimum", -1), ("above", "maximum", 1))


class Mutation(NamedTuple):
    """A change of one property; ``is_invalid``: its schema alone forbids the value."""

    path: Path
    kind: str
    value: Any = None
    is_invalid: bool = False

    @property
    def name(self) -> str:
        """The path as the API server writes it, and what is changed."""
        return f"{self.field} {self.kind}"

    @property
    def field(self) -> str:
        """The path as the API server writes it."""
        return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)[1:]

    def of(self, spec: Manifest) -> Manifest:
        """Return the spec with the change."""
        result: Manifest = copy.deepcopy({"spec": spec})
        target: Any = result
        for part in self.path[:-1]:
            target = target[part]
        if self.kind == "unset":
            del target[self.path[-1]]
        else:
            target[self.path[-1]] = copy.deepcopy(self.value)
        found: Manifest = result["spec"]
        return found


def mutations(spec: Manifest) -> Iterator[Mutation]:
    """Yield the mutations of a spec in the order of the schema."""
    (definition,) = [one for one in definitions() if at(one, "spec", "names", "kind") == "Agent"]
    schema = at(definition, "spec", "versions")[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    yield from _below(schema, spec, ("spec",))


def _below(schema: Schema, value: Any, path: Path) -> Iterator[Mutation]:
    """Yield the mutations of the members of a value."""
    if isinstance(value, list):
        for index, item in enumerate(value[:1]):
            yield from _below(schema["items"], item, (*path, index))
    for name, property in (schema.get("properties") or {}).items():
        here = (*path, name)
        if name in value:
            yield Mutation(here, "unset")
        yield from _values(property, value.get(name), here)
        if isinstance(value.get(name), dict | list):
            yield from _below(property, value[name], here)


def _values(schema: Schema, now: Any, path: Path) -> Iterator[Mutation]:
    """Yield other values of one property."""
    for kind, value in _valid(schema):
        if value != now:
            yield Mutation(path, kind, value)
    for kind, value in _invalid(schema):
        yield Mutation(path, kind, value, is_invalid=True)


def _valid(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield values that the schema allows, at the ends of their range where it has ends."""
    if "enum" in schema:
        yield from ((f"set to {one}", one) for one in schema["enum"])
    elif schema.get("type") == "boolean":
        yield from (("true", True), ("false", False))
    elif schema.get("type") == "integer":
        yield from ((end, schema[key]) for end, key in (("least", "minimum"), ("most", "maximum")) if key in schema)
    elif schema.get("type") == "string":
        yield from _strings(schema)
    elif schema.get("type") == "array":
        yield "empty", []
    elif "additionalProperties" in schema:
        yield "empty", {}
        if schema["additionalProperties"].get("type") == "string":
            yield "another member", {"other": "value"}
    elif schema.get("type") == "object":
        yield "smallest", _smallest(schema)
    elif schema.get("x-kubernetes-int-or-string"):
        yield from (("a number", 1), ("a text", "50%"))


def _strings(schema: Schema) -> Iterator[tuple[str, str]]:
    if "pattern" not in schema:
        yield from (("short", "a"), ("longest", "a" * min(schema.get("maxLength", 4096), 4096)))
        return
    import re2

    fitting = [one for one in _TEXTS if re2.search(schema["pattern"], one) and len(one) <= schema.get("maxLength", 999)]
    yield from (("another", one) for one in fitting[:1])


def _smallest(schema: Schema) -> Any:
    """Return the object with the required members only, each the first value that its schema allows."""
    properties = schema.get("properties") or {}
    return {name: next(iter(_valid(properties[name])), ("", {}))[1] for name in schema.get("required", [])}


def _invalid(schema: Schema) -> Iterator[tuple[str, Any]]:
    """Yield values that the schema forbids."""
    if "enum" in schema:
        yield "unknown word", "Other"
    if schema.get("type") == "integer":
        yield "a text", "1"
        yield from ((end, schema[key] + by) for end, key, by in _OUTSIDE if key in schema)
    elif schema.get("type") in ("boolean", "array", "object"):
        yield "a number", 7
    elif schema.get("type") == "string":
        yield "a list", ["a"]
        if "maxLength" in schema:
            yield "too long", "a" * (schema["maxLength"] + 1)
        if "pattern" in schema:
            yield "not matching", "\t"
    if schema.get("maxItems"):
        yield "too many", [_smallest(schema["items"]) or "a"] * (schema["maxItems"] + 1)
