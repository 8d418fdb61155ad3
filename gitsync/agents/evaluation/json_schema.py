"""JSON Schema of answers: draft 2020-12, with linear-time patterns and without references to other documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import re2
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.exceptions import Unresolvable


def check_schema(schema: Mapping[str, Any]) -> str:
    """Return why a mapping is not a JSON Schema, empty where it is one."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"{_path(error)}{error.message}"
    return ""


def violation(text: str, schema: Mapping[str, Any]) -> str:
    """Return how a text is not JSON of this schema, empty where it is."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return "the answer is not JSON"
    try:
        errors = sorted(_Validator(schema, registry=Registry()).iter_errors(value), key=lambda one: list(one.path))
    except (Unresolvable, re2.error) as error:
        return f"the JSON Schema cannot be applied: {error}"
    return f"the answer breaks its JSON Schema: {_path(errors[0])}{errors[0].message}" if errors else ""


def _path(error: ValidationError | SchemaError) -> str:
    path = error.json_path.removeprefix("$").removeprefix(".")
    return f"{path}: " if path else ""


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    """Replace the keyword, whose own implementation may take exponential time."""
    if isinstance(value, str) and not re2.search(pattern, value):
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for pattern, below in patterns.items() if isinstance(value, dict) else ():
        for name in value:
            if re2.search(pattern, name):
                yield from validator.descend(value[name], below, path=name, schema_path=pattern)


_Validator = extend(Draft202012Validator, {"pattern": _pattern, "patternProperties": _pattern_properties})
