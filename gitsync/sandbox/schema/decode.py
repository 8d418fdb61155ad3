"""Which members a schema declares: the unknown ones of an object, and the object without them."""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from gitsync.kube.openapi import openapi_schemas
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
    TypeMismatch,
    boolean,
    integer,
    json_type_of,
    null,
    number,
    octets,
    raw,
    scalar_for,
    string,
)

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
        paths: list[str] = []
        for key, value in obj.items():
            inner = shape.get(key)
            if inner is None:
                paths.append(f"{path}{key}")
            elif inner:
                for at, item in _items(value, f"{path}{key}", inner):
                    paths += self.unknown(inner, item, f"{at}.")
        return paths

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
            reference = reference_of(values)
            suffix = "|map"
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
        except TypeMismatch as error:
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
                raise TypeMismatch(json_type_of(value), go_type)
            out = {}
            for key, item in value.items():
                decode = fields.get(key)
                if decode is None or item is None:
                    continue
                try:
                    item = decode(item)
                except TypeMismatch as error:
                    # Go names the innermost struct and the path from there.
                    if not error.struct:
                        error.struct = go_name
                    error.path.append(key)
                    raise
                if item is ABSENT or (not item and key in omitted and (omitted[key] or type(item) is not dict)):
                    continue
                out[key] = item
            # Members that Go writes without omitempty, so a client sees them in every object.
            for key, zero in zeros:
                if key not in out:
                    out[key] = zero(value)
            return out

        return struct

    def _member(self, schema: Mapping[str, Any], pair: str) -> tuple[Decoder, Decoder | None]:
        """Return the decoder of a member, and what makes its zero value when Go always writes it."""
        decoder = self._value(schema, pair)
        reference = reference_of(schema)
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
                raise TypeMismatch(json_type_of(value), go_type)
            return [item_of(empty if item is None else item) for item in value]

        return array

    def _map(self, values: Mapping[str, Any], pair: str) -> Decoder:
        value_of = self._value(values, pair)
        empty = _zero_of(values)

        def mapping(value: Any) -> Any:
            if type(value) is not dict:
                raise TypeMismatch(json_type_of(value), "map[string]string")
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
