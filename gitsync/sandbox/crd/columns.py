"""The printer columns of a custom resource, and the part of JSONPath that they use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.crd.resource_strategy import version_of
from gitsync.sandbox.printers.cells import human_duration
from gitsync.sandbox.printers.table import Column

Step = Callable[[list[Any]], list[Any]]

_TOKEN = re.compile(
    r"""
    \.\.(?P<deep>[\w\-]+)
  | \.(?P<member>(?:[\w\-/]|\\.)+|\*)
  | \[\?\(@(?P<path>[^=!<>)\s]*)\s*(?:(?P<test>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[\w.\-]+))?\s*\)\]
  | \[(?P<index>-?\d+)\]
  | \[(?P<slice>-?\d*:-?\d*)\]
  | \[\*\]
  | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
    """,
    re.VERBOSE,
)


class PathError(ValueError):
    """A path that cannot be read."""


def parse_path(path: str) -> Callable[[Any], list[Any]]:
    """Return a function that gives the values at a path; raise PathError."""
    # Braces and a dollar sign are optional (RelaxedJSONPathExpression).
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        raise PathError(f"unrecognized path {path!r}")
    steps: list[Step] = []
    position = 0
    while position < len(text) and text != ".":
        token = _TOKEN.match(text, position)
        if token is None:
            raise PathError(f"unrecognized part {text[position:]!r}")
        steps.append(_step(token))
        position = token.end()

    def values(obj: Any) -> list[Any]:
        current = [obj]
        for step in steps:
            current = step(current)
        return current

    return values


def _step(token: re.Match[str]) -> Step:
    if token["deep"]:
        return lambda values: [item for value in values for item in _deep(value, token["deep"])]
    if token["index"] is not None:
        index = int(token["index"])
        return lambda values: [v[index] for v in values if isinstance(v, list) and -len(v) <= index < len(v)]
    if token["slice"] is not None:
        first, _, last = token["slice"].partition(":")
        part = slice(int(first) if first else None, int(last) if last else None)
        return lambda values: [item for v in values if isinstance(v, list) for item in v[part]]
    if token["path"] is not None:
        return _filter(token)
    name = token["member"] or (token["quoted"] or "")[1:-1]
    if not name or name == "*":
        return _all
    name = re.sub(r"\\(.)", r"\1", name)
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _all(values: list[Any]) -> list[Any]:
    items: list[Any] = []
    for value in values:
        if isinstance(value, dict):
            items += value.values()
        elif isinstance(value, list):
            items += value
    return items


def _deep(value: Any, name: str) -> list[Any]:
    values: list[Any] = []
    if isinstance(value, dict):
        if name in value:
            values.append(value[name])
        for item in value.values():
            values += _deep(item, name)
    elif isinstance(value, list):
        for item in value:
            values += _deep(item, name)
    return values


def _filter(token: re.Match[str]) -> Step:
    inner = parse_path(token["path"])
    wanted = token["value"]
    expected = wanted[1:-1] if wanted and wanted[0] in "\"'" else wanted

    def keep(item: Any) -> bool:
        values = inner(item)
        if token["test"] is None:
            return bool(values)
        equal = any(_as_text(value) == expected for value in values)
        return equal if token["test"] == "==" else bool(values) and not equal

    return lambda values: [item for value in values if isinstance(value, list) for item in value if keep(item)]


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may "
    "allow a client to request the generation of an appropriate name automatically. Name is primarily intended "
    "for creation idempotence and configuration definition. Cannot be updated. More info: "
    "https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_AGE_TEXT = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not "
    "guaranteed to be set in happens-before order across separate operations. Clients may not set this value. "
    "It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. "
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


def columns(crd: Manifest, version: str) -> tuple[Column, ...]:
    """Return the columns of one version: the name, then those of the definition, or else the age."""
    declared = version_of(crd, version).get("additionalPrinterColumns") or ()
    rest = tuple(_column(column) for column in declared)
    age = Column("Age", _cell(".metadata.creationTimestamp", "date"), _AGE_TEXT, "date")
    return (Column("Name", _name, _NAME_TEXT, format="name"), *(rest or (age,)))


def _name(obj: Manifest, now: float) -> Any:
    return at(obj, "metadata", "name")


def _column(declared: dict[str, Any]) -> Column:
    default = f"Custom resource definition column (in JSONPath format): {declared['jsonPath']}"
    return Column(
        name=declared["name"],
        cell=_cell(declared["jsonPath"], declared["type"]),
        description=declared.get("description") or default,
        kind=declared["type"],
        format=declared.get("format", ""),
        priority=declared.get("priority", 0),
    )


def _cell(path: str, kind: str) -> Callable[[Manifest, float], Any]:
    try:
        values = parse_path(path)
    except PathError:
        # A stored definition may have a path that an older server accepted.
        return lambda obj, now: None

    def cell(obj: Manifest, now: float) -> Any:
        values_at_path = values(obj)
        return _shown(values_at_path, kind, now) if values_at_path and values_at_path[0] is not None else None

    return cell


def _shown(values: list[Any], kind: str, now: float) -> Any:
    value = values[0]
    if kind == "string":
        return _text(value)
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if kind == "integer" else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _age(text: str, now: float) -> str:
    try:
        return human_duration(now - seconds_of(text)) if text else "<invalid>"
    except ValueError:
        return "<invalid>"
