"""Validation of the schema in a definition: structural rules, defaults, CEL rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import orjson
import re2

from gitsync.sandbox.crd.cel_rules import compiled, undefined_field
from gitsync.sandbox.crd.structural import SchemaNode, compile_schema
from gitsync.sandbox.crd.validator import validate_value
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import forbidden, invalid, not_supported, required
from gitsync.sandbox.validation.cel import CompileError, compile_expression

Schema = Mapping[str, Any]

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_VALUE_ONLY = ("description", "type", "default", "additionalProperties", "nullable")
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_GO_WORDS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
}


def validate_schema(schema: Schema, field: str) -> list[StatusCause]:
    """Check the root schema of a version."""
    return list(_validate_json(orjson.dumps(schema), field))


# Each write of a definition checks its schema, also one to its status, and each sandbox of a process gets the same few.
@functools.lru_cache(maxsize=64)
def _validate_json(schema_json: bytes, field: str) -> tuple[StatusCause, ...]:
    schema: Schema = orjson.loads(schema_json)
    causes: list[StatusCause] = []
    if not schema.get("type"):
        causes.append(required(f"{field}.type", "must not be empty at the root"))
    elif schema["type"] != "object":
        causes.append(invalid(f"{field}.type", schema["type"], "must be object at the root"))
    if schema.get("nullable"):
        causes.append(forbidden(f"{field}.nullable", "nullable cannot be true at the root"))
    _level(schema, field, causes, root=True)
    return tuple(causes)


def _level(schema: Schema, field: str, causes: list[StatusCause], *, root: bool = False) -> None:
    _keywords(schema, field, causes)
    _list_rules(schema, field, causes)
    _default(schema, field, causes)
    _expressions(schema, field, causes, root=root)
    for member in _COMBINATIONS:
        for index, part in enumerate(schema.get(member) or ()):
            _value_part(part, f"{field}.{member}[{index}]", causes)
    if "not" in schema:
        _value_part(schema["not"], f"{field}.not", causes)
    for name, child in (schema.get("properties") or {}).items():
        path = f"{field}.properties[{name}]"
        _typed(child, path, "specified object fields", causes)
        _level(child, path, causes)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        _typed(additional, f"{field}.additionalProperties", "additional properties", causes)
        _level(additional, f"{field}.additionalProperties", causes)
    items = schema.get("items")
    if isinstance(items, dict):
        _typed(items, f"{field}.items", "specified array items", causes)
        _level(items, f"{field}.items", causes)


def _typed(schema: Schema, field: str, what: str, causes: list[StatusCause]) -> None:
    if schema.get("type") or schema.get("x-kubernetes-int-or-string"):
        return
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    causes.append(required(f"{field}.type", f"must not be empty for {what}"))


def _keywords(schema: Schema, field: str, causes: list[StatusCause]) -> None:
    kind = schema.get("type", "")
    if kind and kind not in _TYPES:
        causes.append(not_supported(f"{field}.type", kind, _TYPES))
    if schema.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        causes.append(forbidden(f"{field}.uniqueItems", text))
    additional = schema.get("additionalProperties")
    if additional is False:
        causes.append(forbidden(f"{field}.additionalProperties", "additionalProperties cannot be set to false"))
    if schema.get("properties") and additional not in (None, False):
        text = "additionalProperties and properties are mutual exclusive"
        causes.append(forbidden(f"{field}.additionalProperties", text))
    if kind == "array" and "items" not in schema:
        causes.append(required(f"{field}.items", "must be specified"))
    if isinstance(schema.get("items"), list):
        text = "items must be a schema object and not an array"
        causes.append(forbidden(f"{field}.items", text))
    for member in ("definitions", "dependencies", "patternProperties", "id", "$ref"):
        if schema.get(member):
            name = "$ref" if member == "$ref" else member
            causes.append(forbidden(f"{field}.{name}", f"{name} is not supported"))
    pattern = schema.get("pattern")
    if pattern:
        why = _misspelled(pattern)
        if why:
            causes.append(invalid(f"{field}.pattern", pattern, f"must be a valid regular expression, but isn't: {why}"))
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        path = f"{field}.x-kubernetes-preserve-unknown-fields"
        causes.append(invalid(path, False, "must be true or undefined"))
    if schema.get("x-kubernetes-embedded-resource"):
        _embedded(schema, field, causes)


def _misspelled(pattern: str) -> str:
    """Return Go's error message for an invalid regular expression, empty for a valid one."""
    options = re2.Options()
    # It would write to standard error.
    options.log_errors = False
    try:
        # Go's regexp is RE2, so the same library decides what is valid.
        re2.compile(pattern, options)
    except re2.error as error:
        message = error.args[0].decode() if isinstance(error.args[0], bytes) else str(error.args[0])
        why, _, where = message.partition(": ")
        return f"error parsing regexp: {_GO_WORDS.get(why, why)}: `{where}`"
    return ""


def _embedded(schema: Schema, field: str, causes: list[StatusCause]) -> None:
    if schema.get("type") != "object":
        text = "must be object if x-kubernetes-embedded-resource is true"
        causes.append(invalid(f"{field}.type", schema.get("type", ""), text))
    if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        text = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        causes.append(required(f"{field}.properties", text))


def _list_rules(schema: Schema, field: str, causes: list[StatusCause]) -> None:
    kind = schema.get("x-kubernetes-list-type")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if kind is not None and schema.get("type") != "array":
        text = "must be array if x-kubernetes-list-type is specified"
        causes.append(invalid(f"{field}.type", schema.get("type", ""), text))
    if kind is not None and kind not in ("atomic", "map", "set"):
        causes.append(not_supported(f"{field}.x-kubernetes-list-type", kind, ("atomic", "map", "set")))
    if keys and kind != "map":
        text = "must be map if x-kubernetes-list-map-keys is non-empty"
        causes.append(invalid(f"{field}.x-kubernetes-list-type", kind, text))
    if kind == "map":
        _map_keys(schema, keys, field, causes)
    map_type = schema.get("x-kubernetes-map-type")
    if map_type is not None and map_type not in ("atomic", "granular"):
        path = f"{field}.x-kubernetes-map-type"
        causes.append(not_supported(path, map_type, ("atomic", "granular")))
    if map_type is not None and schema.get("type") != "object":
        text = "must be object if x-kubernetes-map-type is specified"
        causes.append(invalid(f"{field}.type", schema.get("type", ""), text))


def _map_keys(schema: Schema, keys: Any, field: str, causes: list[StatusCause]) -> None:
    path = f"{field}.x-kubernetes-list-map-keys"
    if not keys:
        causes.append(required(path, "must not be empty if x-kubernetes-list-type is map"))
        return
    items = schema.get("items")
    if not isinstance(items, dict):
        return
    for index, key in enumerate(keys):
        if key in keys[:index]:
            causes.append(invalid(path, keys, "must not contain duplicate entries"))
        if key not in (items.get("properties") or {}):
            causes.append(invalid(path, keys, "entries must all be names of item properties"))
        elif key not in (items.get("required") or ()) and "default" not in items["properties"][key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            causes.append(required(f"{field}.items.properties[{key}].default", text))


def _default(schema: Schema, field: str, causes: list[StatusCause]) -> None:
    if "default" not in schema:
        return
    node = compile_schema(schema, root=False)
    value = schema["default"]
    if value is None and not node.nullable:
        causes.append(invalid(f"{field}.default", None, f'{field}.default in body must be of type {node.type}: "null"'))
        return
    causes += validate_value(node, value, f"{field}.default")


def _expressions(schema: Schema, field: str, causes: list[StatusCause], *, root: bool) -> None:
    rules = schema.get("x-kubernetes-validations") or ()
    node = compile_schema(schema, root=root) if rules else None
    for index, rule in enumerate(rules):
        path = f"{field}.x-kubernetes-validations[{index}]"
        expression = (rule.get("rule") or "").strip()
        if not expression:
            causes.append(required(f"{path}.rule", "rule is not specified"))
            continue
        problem = _problem(rule, node)
        if problem:
            causes.append(invalid(f"{path}.rule", rule["rule"], problem))
        reason = rule.get("reason")
        if reason is not None and reason not in _REASONS:
            causes.append(not_supported(f"{path}.reason", reason, _REASONS))
        message = rule.get("message")
        if message is not None and not message.strip():
            text = "message must be non-empty if specified"
            causes.append(invalid(f"{path}.message", message, text))
        # trimmed, as the API server does: a block scalar of YAML ends with a line break
        if message and "\n" in message.strip():
            causes.append(invalid(f"{path}.message", message, "message must not contain line breaks"))
        if rule.get("messageExpression"):
            try:
                compile_expression(rule["messageExpression"].strip(), ("self", "oldSelf"))
            except CompileError as error:
                text = f"messageExpression {error}"
                causes.append(invalid(f"{path}.messageExpression", rule["messageExpression"], text))


def _problem(rule: Mapping[str, Any], node: SchemaNode | None) -> str:
    try:
        compiled(rule)
    except CompileError as error:
        return str(error)
    return undefined_field(node, rule["rule"].strip()) if node is not None else ""


def _value_part(schema: Schema, field: str, causes: list[StatusCause]) -> None:
    """Inside a combination only the rules for values may stand."""
    for member in _VALUE_ONLY:
        if schema.get(member) and not _is_int_or_string_part(schema, member):
            text = f"must be {'empty' if member != 'default' else 'undefined'} to be structural"
            causes.append(forbidden(f"{field}.{member}", text))
    for name, child in (schema.get("properties") or {}).items():
        _value_part(child, f"{field}.properties[{name}]", causes)
    if isinstance(schema.get("items"), dict):
        _value_part(schema["items"], f"{field}.items", causes)
    for member in _COMBINATIONS:
        for index, part in enumerate(schema.get(member) or ()):
            _value_part(part, f"{field}.{member}[{index}]", causes)


def _is_int_or_string_part(schema: Schema, member: str) -> bool:
    return member == "type" and schema in ({"type": "integer"}, {"type": "string"})
