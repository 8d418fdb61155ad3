"""
Read an object of a built-in kind by its schema, as the API server's typed decoding does.

The result is a private copy in canonical form: unknown members are gone, quantities and times are spelled the
server's way, nulls and empty values are left out where Go leaves them out, and members that Go always
writes are there. A value of the wrong type raises DecodeError.
"""

from __future__ import annotations

import base64
import binascii
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from gitsync.merge.quantity import canonical
from gitsync.sandbox.kinds.gotypes import DROPS_DEFAULT, KEEPS_ZERO, NULL_WHEN_ABSENT, go_type_of, is_raw
from gitsync.sandbox.kinds.times import canonical_micro_time, canonical_time

Decoder = Callable[[Any], Any]

_ABSENT = object()
_OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CLIENT_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_PREFIX = "#/components/schemas/"
_LIMITS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


class DecodeError(ValueError):
    """A value that does not fit its member's type; the text is the server's."""


class _Mismatch(Exception):
    """A JSON value of the wrong type, on its way up to the struct that names it."""

    def __init__(self, found: str, wanted: str) -> None:
        super().__init__(found)
        self.found = found
        self.wanted = wanted
        self.struct = ""
        self.path: list[str] = []

    @property
    def text(self) -> str:
        place = f"Go struct field {self.struct}.{'.'.join(reversed(self.path))}" if self.path else "Go value"
        return f"json: cannot unmarshal {self.found} into {place} of type {self.wanted}"


def _found(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "number"
    return "array" if isinstance(value, list) else "object"


class Codec:
    """
    Decoders for the schemas of one API group version, compiled on first use.

    ``schemas`` is ``components.schemas`` of the OpenAPI document.
    """

    def __init__(self, schemas: Mapping[str, Mapping[str, Any]]) -> None:
        self._schemas = schemas
        self._structs: dict[str, Decoder] = {}
        self._pending: set[str] = set()
        self._lock = threading.RLock()
        self._shapes: dict[str, dict[str, str]] = {}

    def decode(self, name: str, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the canonical copy; of the metadata, only what a client may write is read."""
        body = {key: value for key, value in obj.items() if key != "metadata"}
        try:
            decoded: dict[str, Any] = self._struct(name)(body)
            decoded["metadata"] = self._metadata(obj.get("metadata") or {})
        except _Mismatch as error:
            raise DecodeError(error.text) from None
        return decoded

    def _metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata without nulls, its client members in canonical form."""
        out = {key: value for key, value in metadata.items() if value is not None}
        given = {key: out.pop(key) for key in _CLIENT_METADATA if key in out}
        if not given:
            return out
        try:
            out.update(self._struct(_OBJECT_META)(given))
            return out
        except _Mismatch as error:
            error.path.append("metadata")
            raise

    def name_of(self, group: str, version: str, kind: str) -> str:
        """Return the name of a kind's schema; raise KeyError when there is none."""
        wanted = {"group": group, "kind": kind, "version": version}
        for name, schema in self._schemas.items():
            if wanted in schema.get("x-kubernetes-group-version-kind", ()) and "properties" in schema:
                return name
        raise KeyError(kind)

    def zero(self, name: str) -> dict[str, Any]:
        """Return what an empty object of the type is written as."""
        return self.decode(name, {})

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
            if name == _OBJECT_META:
                shape["managedFields"] = ""  # the pipeline reads them
        return shape

    def _inner(self, member: Mapping[str, Any]) -> str:
        reference = _reference(member) or _reference(member.get("items", {}))
        values = member.get("additionalProperties")
        suffix = ""
        if isinstance(values, dict):
            reference, suffix = _reference(values), "|map"
        if not reference or "properties" not in self._schemas[reference]:
            return ""
        return reference + suffix

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
        zeros: list[tuple[str, Decoder]] = []
        for key, member in schema.get("properties", {}).items():
            pair = f"{go_name}.{key}"
            decoder, zero = self._member(member, keep=pair in KEEPS_ZERO or key in required, pair=pair)
            fields[key] = decoder
            if zero is not None:
                zeros.append((key, zero))
            elif pair in NULL_WHEN_ABSENT or (key in required and member.get("type") in ("array", "object")):
                zeros.append((key, _null))

        def struct(value: Any) -> Any:
            if type(value) is not dict:
                raise _Mismatch(_found(value), go_type)
            out = {}
            for key, item in value.items():
                decode = fields.get(key)
                if decode is None or item is None:
                    continue
                try:
                    item = decode(item)
                except _Mismatch as error:
                    if not error.struct:
                        error.struct = go_name
                    error.path.append(key)
                    raise
                if item is not _ABSENT:
                    out[key] = item
            for key, zero in zeros:
                if key not in out:
                    out[key] = zero(value)
            return out

        return struct

    def _member(self, schema: Mapping[str, Any], *, keep: bool, pair: str) -> tuple[Decoder, Decoder | None]:
        """Return the decoder of a member, and what makes its zero value when Go always writes it."""
        has_default = "default" in schema
        reference = _reference(schema)
        if reference:
            decoder = self._value(schema, pair)
            if has_default and schema["default"] == {} and not _is_scalar(reference):
                return decoder, lambda _: decoder({})
            return decoder, None
        kind = schema.get("type")
        decoder = self._value(schema, pair)
        if kind == "array" or (kind == "object" and "additionalProperties" in schema):
            return (decoder if pair in NULL_WHEN_ABSENT else _without_empty(decoder)), None
        if kind == "string" and schema.get("format") == "byte":
            return (decoder if keep else _without_empty(decoder)), None
        if has_default and pair not in DROPS_DEFAULT:
            zero = schema["default"]
            return decoder, (lambda _: zero)
        return (decoder if keep else _without_zero(decoder)), None

    def _value(self, schema: Mapping[str, Any], pair: str) -> Decoder:
        """Return the decoder of a value that is present."""
        reference = _reference(schema)
        if reference:
            scalar = _scalar_reference(reference)
            if scalar is not None:
                return scalar
            if is_raw(reference):
                return _raw
            target = self._schemas[reference]
            if "properties" not in target and target.get("type") != "object":
                return self._value(target, pair)
            return self._struct(reference)
        kind = schema.get("type")
        if kind == "array":
            return self._array(schema["items"], pair)
        if kind == "object":
            values = schema.get("additionalProperties")
            return self._map(values, pair) if isinstance(values, dict) else _raw
        if kind == "string":
            return _bytes if schema.get("format") == "byte" else _string(pair)
        if kind == "integer":
            return _integer(schema.get("format", "int64"))
        if kind == "boolean":
            return _boolean
        if kind == "number":
            return _number
        return _raw

    def _array(self, items: Mapping[str, Any], pair: str) -> Decoder:
        item_of = self._value(items, pair)
        reference = _reference(items)
        go_type = f"[]{go_type_of(reference)}" if reference else f"[]{items.get('type', 'interface {}')}"
        empty: Any = {} if reference else ""

        def array(value: Any) -> Any:
            if type(value) is not list:
                raise _Mismatch(_found(value), go_type)
            return [item_of(empty if item is None else item) for item in value]

        return array

    def _map(self, values: Mapping[str, Any], pair: str) -> Decoder:
        value_of = self._value(values, pair)
        empty: Any = [] if values.get("type") == "array" else ""

        def mapping(value: Any) -> Any:
            if type(value) is not dict:
                raise _Mismatch(_found(value), "map[string]string")
            return {key: value_of(empty if item is None else item) for key, item in value.items()}

        return mapping


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


def _reference(schema: Mapping[str, Any]) -> str:
    parts = schema.get("allOf")
    target = parts[0].get("$ref", "") if parts else schema.get("$ref", "")
    return str(target).removeprefix(_PREFIX)


def _without_empty(decode: Decoder) -> Decoder:
    def decoder(value: Any) -> Any:
        return decode(value) or _ABSENT

    return decoder


def _without_zero(decode: Decoder) -> Decoder:
    def decoder(value: Any) -> Any:
        decoded = decode(value)
        return decoded if decoded or type(decoded) is dict else _ABSENT

    return decoder


def _null(_: Any) -> None:
    return None


def _raw(value: Any) -> Any:
    return value


def _string(pair: str) -> Decoder:
    wanted = go_type_of(pair, member=True)

    def string(value: Any) -> Any:
        if type(value) is not str:
            raise _Mismatch(_found(value), wanted)
        return value

    return string


def _integer(size: str) -> Decoder:
    least, most = _LIMITS[size]

    def integer(value: Any) -> Any:
        if type(value) is int:
            if least <= value <= most:
                return value
        elif type(value) is not float:
            raise _Mismatch(_found(value), size)
        raise _Mismatch(f"number {value}", size)

    return integer


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise _Mismatch(_found(value), "bool")
    return value


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise _Mismatch(_found(value), "float64")
    return value


def _bytes(value: Any) -> Any:
    if type(value) is not str:
        raise _Mismatch(_found(value), "[]uint8")
    try:
        base64.b64decode(value, validate=True)
    except binascii.Error:
        compact = value.replace("\n", "").replace("\r", "")
        fault = _base64_fault(compact)
        if fault >= 0:
            raise DecodeError(f"illegal base64 data at input byte {fault}") from None
        return compact
    return value


def _base64_fault(text: str) -> int:
    """Return the position of what Go calls the first illegal byte, -1 when there is none."""
    for position, char in enumerate(text):
        if char == "=":
            whole = position % 4 >= 2 and text[position:] in ("=", "==") and len(text) % 4 == 0
            return -1 if whole else position
        if not (char.isascii() and (char.isalnum() or char in "+/")):
            return position
    return -1 if len(text) % 4 == 0 else len(text)


def _quantity(value: Any) -> Any:
    text = value if type(value) is str else orjson.dumps(value).decode()
    try:
        return _canonical(text)
    except ValueError as error:
        raise DecodeError(str(error)) from None


_canonical = functools.lru_cache(maxsize=4096)(canonical)


def _int_or_string(value: Any) -> Any:
    if type(value) is str:
        return value
    return _integer("int32")(value)


def _time(value: Any) -> Any:
    if type(value) is not str:
        raise _Mismatch(_found(value), "string")
    try:
        return canonical_time(value)
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _micro_time(value: Any) -> Any:
    if type(value) is not str:
        raise _Mismatch(_found(value), "string")
    try:
        return canonical_micro_time(value)
    except ValueError as error:
        raise DecodeError(str(error)) from None


_SCALARS: Mapping[str, Decoder] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": _time,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": _micro_time,
}


def _scalar_reference(reference: str) -> Decoder | None:
    return _SCALARS.get(reference)


def _is_scalar(reference: str) -> bool:
    return reference in _SCALARS
