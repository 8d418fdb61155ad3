"""The printer columns of a custom resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.crd.jsonpath import PathError, parse_path
from gitsync.sandbox.crd.resource_strategy import version_of
from gitsync.sandbox.printers.cells import human_duration
from gitsync.sandbox.printers.table import Column

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
    given = version_of(crd, version).get("additionalPrinterColumns") or ()
    rest = tuple(_column(column) for column in given)
    age = Column("Age", _cell(".metadata.creationTimestamp", "date"), _AGE_TEXT, "date")
    return (Column("Name", _name, _NAME_TEXT, format="name"), *(rest or (age,)))


def _name(obj: Manifest, now: float) -> Any:
    return at(obj, "metadata", "name")


def _column(given: dict[str, Any]) -> Column:
    default = f"Custom resource definition column (in JSONPath format): {given['jsonPath']}"
    return Column(
        name=given["name"],
        cell=_cell(given["jsonPath"], given["type"]),
        description=given.get("description") or default,
        kind=given["type"],
        format=given.get("format", ""),
        priority=given.get("priority", 0),
    )


def _cell(path: str, kind: str) -> Callable[[Manifest, float], Any]:
    try:
        values = parse_path(path)
    except PathError:
        return lambda obj, now: None

    def cell(obj: Manifest, now: float) -> Any:
        found = values(obj)
        return _shown(found, kind, now) if found and found[0] is not None else None

    return cell


def _shown(found: list[Any], kind: str, now: float) -> Any:
    value = found[0]
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
