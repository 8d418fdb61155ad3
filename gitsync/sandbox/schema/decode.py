"""
Read an object of a built-in kind by its schema, as the API server's typed decoding does.

The result is a private copy in canonical form: unknown members are gone, quantities and times are spelled the
server's way, nulls and empty values are left out where Go leaves them out, and members that Go always
writes are there. A value of the wrong type raises DecodeError.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Mapping
from typing import Any

from gitsync.kube.openapi import openapi_schemas
from gitsync.sandbox.schema.fields import OBJECT_META, FieldIndex, reference_of
from gitsync.sandbox.schema.go_types import (
    DROPS_DEFAULT,
    KEEPS_EMPTY,
    KEEPS_ZERO,
    NULL_WHEN_ABSENT,
    ZERO_QUANTITY,
    go_type_of,
    is_raw,
)
from gitsync.sandbox.schema.scalars import (
    ABSENT,
    DecodeError,
    Decoder,
    Mismatch,
    boolean,
    found_kind,
    integer,
    null,
    number,
    octets,
    raw,
    scalar_for,
    string,
)


class Codec:
    """
    Decoders for the schemas of one API group version, compiled on first use.

    ``schemas`` is ``components.schemas`` of the OpenAPI document. ``wraps`` converts numbers as the API server does
    for objects that it did not read from JSON: a server-side apply and a strategic merge patch.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]], *, wraps: bool = False) -> None:
        self._schemas = schemas
        self._wraps = wraps
        self._structs: dict[str, Decoder] = {}
        self._pending: set[str] = set()
        self._statuses: dict[str, Any] = {}
        self._lock = threading.RLock()
        self.members = FieldIndex(schemas)

    def decode(self, name: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the canonical copy of an object; raise DecodeError at the first value of a wrong type."""
        try:
            decoded: dict[str, Any] = self._struct(name)(obj)
        except Mismatch as error:
            raise DecodeError(error.text) from None
        return decoded

    def metadata(self, value: Any) -> dict[str, Any]:
        """Return the canonical copy of the metadata of a custom resource; raise DecodeError as ``decode`` does."""
        return self.decode(OBJECT_META, {} if value is None else value)

    def name_of(self, group: str, version: str, kind: str) -> str:
        """Return the name of a kind's schema; raise KeyError when there is none."""
        wanted = {"group": group, "kind": kind, "version": version}
        for name, schema in self._schemas.items():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()) and "properties" in schema:
                return name
        raise KeyError(kind)

    def zero_status(self, name: str) -> Any:
        """Return the status that an empty object of the type is written with, None for none."""
        if name not in self._statuses:
            self._statuses[name] = self.decode(name, {}).get("status")
        return copy.deepcopy(self._statuses[name])

    def _struct(self, name: str) -> Decoder:
        """Return the decoder of a struct, compiled once whatever thread asks first."""
        known = self._structs.get(name)
        if known is not None:
            return known
        with self._lock:
            if name in self._structs:
                return self._structs[name]
            if name in self._pending:  # a type that holds itself finds itself when it is used
                return lambda value: self._struct(name)(value)
            self._pending.add(name)
            self._structs[name] = self._compile(name)
            self._pending.discard(name)
            return self._structs[name]

    def _compile(self, name: str) -> Decoder:
        schema = self._schemas[name]
        go_name = name.rpartition(".")[2]
        go_type = go_type_of(name)
        required = frozenset(schema.get("required", ()))
        fields: dict[str, Decoder] = {}
        omitted: dict[str, bool] = {}  # members that are left out when they are zero, and whether {} is too
        zeros: list[tuple[str, Decoder]] = []
        for key, member in schema.get("properties", {}).items():
            pair = f"{go_name}.{key}"
            is_kept = pair in KEEPS_ZERO or key in required
            decoder, zero = self._member(member, pair)
            fields[key] = decoder
            if _is_omitted(member, pair, is_kept=is_kept):
                omitted[key] = _is_collection(member)
            if zero is not None:
                zeros.append((key, zero))
            elif pair in NULL_WHEN_ABSENT or (key in required and member.get("type") in ("array", "object")):
                zeros.append((key, null))

        def struct(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(found_kind(value), go_type)
            out = {}
            for key, item in value.items():
                decode = fields.get(key)
                if decode is None or item is None:
                    continue
                try:
                    item = decode(item)
                except Mismatch as error:
                    if not error.struct:
                        error.struct = go_name
                    error.path.append(key)
                    raise
                if item is ABSENT or (not item and key in omitted and (omitted[key] or type(item) is not dict)):
                    continue
                out[key] = item
            for key, zero in zeros:
                if key not in out:
                    out[key] = zero(value)
            return out

        return struct

    def _member(self, schema: Mapping[str, Any], pair: str) -> tuple[Decoder, Decoder | None]:
        """Return the decoder of a member, and what makes its zero value when Go always writes it."""
        decoder, reference = self._value(schema, pair), reference_of(schema)
        if reference and pair in ZERO_QUANTITY:
            return decoder, lambda _: "0"
        if reference:
            is_struct = "default" in schema and schema["default"] == {} and scalar_for(reference) is None
            return decoder, (lambda _: decoder({})) if is_struct else None
        if "default" in schema and pair not in DROPS_DEFAULT and not _is_collection(schema):
            zero = schema["default"]
            return decoder, lambda _: zero
        return decoder, None

    def _value(self, schema: Mapping[str, Any], pair: str) -> Decoder:
        """Return the decoder of a value that is present."""
        reference = reference_of(schema)
        if reference:
            scalar = scalar_for(reference)
            if scalar is not None:
                return scalar
            if is_raw(reference):
                return self._choice(reference) or raw
            target = self._schemas[reference]
            if "properties" not in target and target.get("type") != "object":
                return self._value(target, pair)
            return self._struct(reference)
        kind = schema.get("type")
        if kind == "array":
            return self._array(schema["items"], pair)
        if kind == "object":
            values = schema.get("additionalProperties")
            return self._map(values, pair) if isinstance(values, dict) else raw
        if kind == "string":
            return octets if schema.get("format") == "byte" else string(pair)
        if kind == "integer":
            return integer(schema.get("format", "int64"), wraps=self._wraps)
        if kind == "boolean":
            return boolean
        if kind == "number":
            return number
        return raw

    def _choice(self, reference: str) -> Decoder | None:
        """Return the decoder of a schema or, by the name of the type, an array of them, a boolean, or texts."""
        package, _, choice = reference.rpartition(".JSONSchemaPropsOr")
        if not package:
            return None
        name = f"{package}.JSONSchemaProps"

        def schema_or_other(value: Any) -> Any:
            if type(value) is dict:
                return self._struct(name)(value)
            if choice == "Bool":
                return value if type(value) is bool else _refuse("boolean or JSON schema expected")
            if type(value) is not list:
                return ABSENT
            if choice == "StringArray":
                return [_item(item) for item in value]
            return [self._struct(name)({} if item is None else item) for item in value] or ABSENT

        return schema_or_other

    def _array(self, items: Mapping[str, Any], pair: str) -> Decoder:
        item_of = self._value(items, pair)
        reference = reference_of(items)
        go_type = f"[]{go_type_of(reference)}" if reference else f"[]{items.get('type', 'interface {}')}"
        empty = _zero_of(items)

        def array(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(found_kind(value), go_type)
            return [item_of(empty if item is None else item) for item in value]

        return array

    def _map(self, values: Mapping[str, Any], pair: str) -> Decoder:
        value_of = self._value(values, pair)
        empty = _zero_of(values)

        def mapping(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(found_kind(value), "map[string]string")
            return {key: value_of(empty if item is None else item) for key, item in value.items()}

        return mapping


@functools.cache
def metadata_codec() -> Codec:
    """Return the codec whose ``metadata`` reads the metadata of objects without a built-in schema."""
    return Codec(openapi_schemas("v1"))


def _refuse(text: str) -> Any:
    raise DecodeError(text)


_item = string("")


def _is_collection(schema: Mapping[str, Any]) -> bool:
    """Whether a member is a list, a map, or bytes, of which Go omits any that are empty."""
    kind = schema.get("type")
    is_map = kind == "object" and "additionalProperties" in schema
    return kind == "array" or is_map or (kind == "string" and schema.get("format") == "byte")


def _is_omitted(schema: Mapping[str, Any], pair: str, *, is_kept: bool) -> bool:
    """Whether Go leaves out a member that is empty or zero; an object without known members stays."""
    if reference_of(schema):
        return False
    if _is_collection(schema) and schema.get("type") != "string":
        return pair not in NULL_WHEN_ABSENT and pair not in KEEPS_EMPTY
    if "default" in schema and pair not in DROPS_DEFAULT and schema.get("format") != "byte":
        return False
    return not is_kept


def _zero_of(schema: Mapping[str, Any]) -> Any:
    """Return what a null inside a list or map is read as."""
    reference = reference_of(schema)
    if reference:
        return "0" if scalar_for(reference) is not None else {}
    return {"array": [], "object": {}, "integer": 0, "boolean": False}.get(schema.get("type", ""), "")
