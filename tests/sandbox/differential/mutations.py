"""Generated changes of a valid object: wrong, missing, odd and additional values at paths of its schema."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.sandbox.kinds.random_bodies import Bodies

Path = tuple[str | int, ...]
REMOVE: Final = object()

_ODD: Mapping[type, tuple[Any, ...]] = {
    str: (1, True, {}, [], None, "", "Bad_Value!", "x" * 300, "other", "-1", REMOVE),
    int: ("1", -1, 0, 99999, 2**31, 1.5, None, True, {}, REMOVE),
    float: ("1", -1, 0, 0.3, None, REMOVE),
    bool: ("true", 1, None, False, True, REMOVE),
    list: ({}, "x", None, [], [None], REMOVE),
    dict: ([], "x", None, {}, REMOVE),
}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One value at one path; REMOVE removes what is there."""

    path: Path
    value: Any

    def applied(self, obj: Any) -> Any:
        """Return a changed copy of the object."""
        return _set(obj, self.path, self.value)


def _set(obj: Any, path: Path, value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        items = list(obj)
        if not rest and value is REMOVE:
            return items[:first] + items[first + 1 :]
        items[first] = _set(items[first], rest, value)
        return items
    members = dict(obj) if isinstance(obj, dict) else {}
    if not rest and value is REMOVE:
        members.pop(first, None)
    else:
        members[first] = _set(members.get(first), rest, value)
    return members


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Yield the path of every value inside an object."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*at, key)
        yield from paths(member, (*at, key))


def value_at(obj: Any, path: Path) -> Any:
    """Return the value at a path that exists."""
    for part in path:
        obj = obj[part]
    return obj


def mutate(obj: dict[str, Any], schemas: Mapping[str, Any], schema: Any, rng: random.Random) -> Mutation:
    """Return a random change of an object of a schema: an odd value, a duplicate item, or a member not yet there."""
    path = rng.choice([path for path in paths(obj) if path[0] not in ("apiVersion", "kind")])
    if path in (("metadata",), ("metadata", "name"), ("metadata", "namespace")):
        path = ("metadata", "labels")
        return Mutation(
            path, rng.choice([{"a": "b"}, {"Bad/Key/x": "v"}, {"a": "b c"}, {"a": 1}, "x", [], {"a": None}])
        )
    value = value_at(obj, path)
    choice = rng.random()
    if isinstance(value, list) and value and choice < 0.3:
        return Mutation(path, [*value, copy.deepcopy(rng.choice(value))])
    if isinstance(value, dict) and choice < 0.5:
        return _additional(obj, path, schemas, schema, rng)
    return Mutation(path, rng.choice(_ODD.get(type(value), _ODD[str])))


def _additional(obj: Any, path: Path, schemas: Mapping[str, Any], schema: Any, rng: random.Random) -> Mutation:
    """Return a member of the schema that the object at the path does not have, with a random value of its type."""
    at = _schema_at(schemas, schema, path)
    present = value_at(obj, path)
    absent = sorted(name for name in at.get("properties", {}) if name not in present)
    if not absent:
        return Mutation((*path, "unknownMember"), rng.choice(["x", 1, {}]))
    name = rng.choice(absent)
    return Mutation((*path, name), Bodies(dict(schemas), rng).of(at["properties"][name], 2))


def _schema_at(schemas: Mapping[str, Any], schema: Any, path: Path) -> Any:
    for part in path:
        schema = resolved(schemas, schema)
        if isinstance(part, int):
            schema = schema.get("items", {})
        else:
            schema = schema.get("properties", {}).get(part) or schema.get("additionalProperties") or {}
        if not isinstance(schema, dict):
            return {}
    return resolved(schemas, schema)


def resolved(schemas: Mapping[str, Any], schema: Any) -> Any:
    """Return a schema with its reference followed."""
    reference = (schema.get("allOf") or [schema])[0].get("$ref", "").rpartition("/")[2]
    return schemas[reference] if reference else schema
