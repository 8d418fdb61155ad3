"""Which members a schema declares: the unknown ones of an object, and the object without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PREFIX = "#/components/schemas/"

Schemas = Mapping[str, Mapping[str, Any]]


class FieldIndex:
    """The members of the structs of some schemas, looked up once."""

    def __init__(self, schemas: Schemas) -> None:
        self._schemas = schemas
        self._shapes: dict[str, dict[str, str]] = {}

    def unknown(self, name: str, obj: Any, path: str = "") -> list[str]:
        """Return the paths of the members that the schema does not have, in the order of the object."""
        shape = self._shape(name)
        found: list[str] = []
        for key, value in obj.items():
            inner = shape.get(key)
            if inner is None:
                found.append(f"{path}{key}")
            elif inner:
                for at, item in _items(value, f"{path}{key}", inner):
                    found += self.unknown(inner, item, f"{at}.")
        return found

    def prune(self, name: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the object without the members that the schema does not have."""
        shape = self._shape(name)
        return {
            key: self._pruned(shape[key], value) if shape[key] else value for key, value in obj.items() if key in shape
        }

    def _pruned(self, inner: str, value: Any) -> Any:
        name, _, holder = inner.partition("|")
        if holder == "map" and isinstance(value, dict):
            return {key: self._pruned(name, item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._pruned(inner, item) for item in value]
        return self.prune(name, value) if isinstance(value, dict) else value

    def _shape(self, name: str) -> dict[str, str]:
        """Return the members of a struct: the struct inside each, empty for what has no members of its own."""
        name = name.partition("|")[0]
        shape = self._shapes.get(name)
        if shape is None:
            members = self._schemas[name].get("properties", {})
            shape = self._shapes[name] = {key: self._inner(member) for key, member in members.items()}
            if name == OBJECT_META:
                shape["managedFields"] = ""  # the pipeline reads them
        return shape

    def _inner(self, member: Mapping[str, Any]) -> str:
        reference = reference_of(member) or reference_of(member.get("items", {}))
        values = member.get("additionalProperties")
        suffix = ""
        if isinstance(values, dict):
            reference, suffix = reference_of(values), "|map"
        if not reference or "properties" not in self._schemas[reference]:
            return ""
        return reference + suffix


def _items(value: Any, path: str, inner: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the structs in a member's value with their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _items(item, f"{path}[{index}]", inner)
    elif isinstance(value, dict):
        if inner.endswith("|map"):
            for key, item in value.items():
                yield from _items(item, f"{path}.{key}", inner[: -len("|map")])
        else:
            yield path, value


def reference_of(schema: Mapping[str, Any]) -> str:
    """Return the name of the schema that this one refers to, empty where it refers to none."""
    parts = schema.get("allOf")
    target = parts[0].get("$ref", "") if parts else schema.get("$ref", "")
    return str(target).removeprefix(_PREFIX)
