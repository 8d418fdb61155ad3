"""Check: what Kustomize prints but no API server takes, said before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest

_TEXTS: Final = {"ConfigMap": ("data", "binaryData"), "Secret": ("data", "stringData")}
_TYPES: Final = {bool: "a flag", int: "a number", float: "a number", dict: "a mapping", list: "a list"}


def faults(manifest: Manifest, where: str = "") -> tuple[InvalidInput, ...]:
    """Return what is wrong with the name, labels, annotations and data of an object, one error for each member."""
    meta = manifest.get("metadata") or {}
    kind, name = manifest.get("kind"), meta.get("name")
    subject = f"{kind} {name}"
    found = []
    if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "%" in name:
        found.append(
            InvalidInput(
                f"metadata.name {name!r} is not a valid object name",
                where=where,
                subject=str(kind),
                cure="use a string of letters, digits, '-' and '.', in quotes where it is a number",
            )
        )
    members = [(f"metadata.{member}", meta.get(member)) for member in ("labels", "annotations")]
    members += [(member, manifest.get(member)) for member in _TEXTS.get(str(kind), ())]
    for member, values in members:
        bad = list(_not_texts(values))
        if bad:
            found.append(
                InvalidInput(
                    f"{member} takes strings only: {', '.join(bad)}",
                    where=where,
                    subject=subject,
                    cure="quote each value",
                )
            )
    return tuple(found)


def _not_texts(values: Any) -> Iterator[str]:
    if values is None:
        return
    if not isinstance(values, dict):
        yield f"it is {_TYPES.get(type(values), 'a string')}, not a mapping"
        return
    for key, value in values.items():
        if not isinstance(value, str) and value is not None:
            yield f"{key} is {_TYPES.get(type(value), 'a number')}"
