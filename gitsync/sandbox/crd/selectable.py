"""Validation of the fields by which custom resources can be selected (ValidateCustomResourceSelectableFields)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import duplicate, invalid, required, too_many

_MOST = 8
_PART = re.compile(r"\.(?P<member>[a-zA-Z_]\w*)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_SELECTABLE = ("boolean", "integer", "string")
_TYPE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


def validate_selectable(fields: Sequence[Mapping[str, Any]], schema: Any, field: str) -> list[Cause]:
    """Check that each path leads to a scalar of the schema, and that there are not too many."""
    if fields and not schema:
        return [invalid(field, "", "may only be set when validations.schema is included")]
    causes: list[Cause] = []
    seen: set[tuple[str, ...]] = set()
    for index, one in enumerate(fields):
        path, text = f"{field}[{index}].jsonPath", one.get("jsonPath", "")
        parts = _parts(text)
        if not text:
            causes.append(required(path))
        elif parts is None or (found := _at(schema, parts)) is None:
            causes.append(invalid(path, text, "is an invalid path: does not refer to a valid field"))
        else:
            causes += _selectable(parts, found, text, path)
            causes += [duplicate(path, text)] if parts in seen else []
            seen.add(parts)
    return causes + ([too_many(field, len(seen), _MOST)] if len(seen) > _MOST else [])


def _selectable(parts: tuple[str, ...], schema: Mapping[str, Any], text: str, path: str) -> list[Cause]:
    causes = [invalid(path, text, "must not point to fields in metadata")] if parts[0] == "metadata" else []
    return causes if schema.get("type") in _SELECTABLE else [*causes, invalid(path, text, _TYPE)]


def _parts(text: str) -> tuple[str, ...] | None:
    """Return the names on a path such as ``.spec.color``, None for one of another syntax."""
    names, position = list[str](), 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None:
            return None
        names.append(found["member"] or found["quoted"])
        position = found.end()
    return tuple(names)


def _at(schema: Any, parts: tuple[str, ...]) -> Any:
    """Return the schema of a field, None where it is not declared; metadata has one of its own."""
    for number, name in enumerate(parts):
        if number == 0 and name == "metadata":
            return {"type": "string"}
        further = (schema.get("properties") or {}).get(name)
        schema = further if further is not None else schema.get("additionalProperties")
        if not isinstance(schema, dict):
            return None
    return schema
