"""
Schema: a type as the merge core sees it, compiled lazily from OpenAPI.

The terms are those of structured merge: a type may be a scalar, a list and a map at once (an undescribed type
is all three). Lists are atomic, sets, or maps by keys; maps are granular or atomic.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from gitsync.kube import openapi
from gitsync.kube.kinds import CRD, defined_kind
from gitsync.objects.manifest import Manifest, at, group_of

REFERENCE: Final = "#/components/schemas/"
_GVK: Final = "x-kubernetes-group-version-kind"
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW: Final = "io.k8s.apimachinery.pkg.runtime.RawExtension"  # an embedded value, which has one owner
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_SCALARS: Final = {"string": "string", "boolean": "boolean", "number": "numeric", "integer": "numeric"}
_NO_TYPES: Final[frozenset[type]] = frozenset()
# Matched by exact type: in Python a bool is an int, in JSON it is not a number.
_SCALAR_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "string": frozenset({str}),
    "numeric": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "untyped": frozenset({str, int, float, bool}),
}
_FORMATS: Final = {
    _QUANTITY: "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": "duration",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "micro-time",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
}
# what controller-gen writes for a field of type resource.Quantity (controller-tools, pkg/crd/known_types.go)
_QUANTITY_PATTERN: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|"
# steps after which a chain of references counts as circular
_MAX_REFERENCES: Final = 32
_STABLE_VERSIONS: Final = ("v1", "v2")
_PRERELEASE: Final = re.compile(r"(alpha|beta)[0-9]+$", re.ASCII)
OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


class Schema:
    """
    The description of one type; read-only once compiled.

    ``scalar`` is string, numeric, boolean, untyped or empty, ``scalar_types`` the matching Python types.
    ``fields[name]`` is the schema of a member, the one of undeclared members (``elements``) where it is not
    declared, or None where such are unknown. ``custom`` types were written in a CRD.
    """

    __slots__ = (
        "_empty",
        "custom",
        "declared",
        "default",
        "elements",
        "fields",
        "format",
        "is_list",
        "is_map",
        "items",
        "keys",
        "list_type",
        "map_atomic",
        "merge_key",
        "name",
        "patch_strategy",
        "required",
        "scalar",
        "scalar_types",
        "union",
    )

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.scalar = ""
        self.scalar_types: frozenset[type] = _NO_TYPES
        self.format = ""
        self.default: Any = None
        self.custom = False
        self.required: frozenset[str] = frozenset()
        self._empty: dict[str, Any] | None = None
        self.is_map = False
        self.map_atomic = False
        self.fields: Fields = Fields({}, None, None, False)
        self.declared: frozenset[str] = frozenset()
        self.elements: Schema | None = None
        self.is_list = False
        # a list without a marker is atomic; a map without one is granular
        self.list_type = "atomic"
        self.keys: tuple[str, ...] = ()
        self.items: Schema | None = None
        self.patch_strategy: tuple[str, ...] = ()
        self.merge_key = ""
        self.union: Mapping[str, Any] = {}
        """The first of ``x-kubernetes-unions``; no published type has several."""

    @property
    def empty(self) -> dict[str, Any]:
        """
        The value of an object of this type before any field was set; read-only.

        Built-in types are not empty: their structs hold structs and required members with zero values. The manager
        that creates an object owns the differences from that, not the zero values.
        """
        if self._empty is None:
            self._empty = {} if self.custom else dict(self._zero_members())
        return self._empty

    def _zero_members(self) -> Iterator[tuple[str, Any]]:
        """Yield the members that an unset value of the type still has: structs, zeros, and nulls for lists."""
        members = [(name, child) for name in sorted(self.declared) if (child := self.fields[name]) is not None]
        # Older types show their required members when these are unset; newer ones leave them out, which
        # shows in a required scalar whose default is not zero.
        omits = any(name in self.required and child.scalar and child.default is None for name, child in members)
        for name, child in members:
            if child.default == {} and child.declared:
                yield name, child.empty
            elif child.default in ("", 0, False):
                yield name, child.default
            elif name in self.required and not child.scalar and not omits:
                yield name, None

    def __repr__(self) -> str:
        return f"Schema({self.name or self.scalar or ('list' if self.is_list else 'map')!r})"


class Fields(dict[str, Schema | None]):
    """The members of a map, each compiled on first access."""

    __slots__ = ("_elements", "_preserve", "_properties", "_schemas")

    def __init__(
        self,
        properties: Mapping[str, Any],
        elements: Schema | None,
        schemas: Schemas | None,
        preserve: bool,
    ) -> None:
        super().__init__()
        self._properties = properties
        self._elements = elements
        self._schemas = schemas
        self._preserve = preserve

    def __missing__(self, name: str) -> Schema | None:
        raw = self._properties.get(name)
        if raw is None or self._schemas is None:
            # Not stored: the names of labels and data are unbounded, and all have this schema.
            return self._elements
        child = self._schemas.compile(raw, self._preserve)
        self[name] = child
        return child


def _make_deduced() -> Schema:
    """Return the type of undescribed values: maps granular, lists atomic, any scalar."""
    schema = Schema("deduced")
    schema.scalar = "untyped"
    schema.scalar_types = _SCALAR_TYPES["untyped"]
    schema.is_map = schema.is_list = True
    schema.elements = schema.items = schema
    schema.fields = Fields({}, schema, None, False)
    return schema


DEDUCED: Final = _make_deduced()
"""The type of everything that no schema describes."""


_Built: TypeAlias = dict[tuple[int, bool], Schema]


class Schemas:
    """The types of a cluster: named schemas, and the schema of each kind."""

    def __init__(self, raw: Mapping[str, Any], *, custom: bool = False) -> None:
        self.raw = raw
        self._custom = custom
        self._compiled: _Built = {}
        self._kept_alive: list[Any] = []
        self._names: dict[tuple[str, str, str], str] | None = None
        self._for_kind: dict[tuple[str, str, str], Schema | None] = {}

    @classmethod
    def from_openapi(cls, documents: Iterable[Mapping[str, Any]]) -> Schemas:
        """Return the types of the documents that an API server serves under ``/openapi/v3``."""
        raw: dict[str, Any] = {}
        for document in documents:
            raw.update((document.get("components") or {}).get("schemas") or {})
        return cls(raw)

    def from_crd(self, schema: Mapping[str, Any]) -> Schema:
        """
        Compile the ``openAPIV3Schema`` of one version of a CRD, as the API server publishes it.

        Its metadata is the ObjectMeta among these schemas.
        """
        return Schemas(self.raw, custom=True).compile(_as_object(schema))

    def for_kind(self, group: str, version: str, kind: str) -> Schema | None:
        """Return the schema of a kind, or None where the documents do not have it."""
        key = (group, version, kind)
        try:
            return self._for_kind[key]
        except KeyError:
            name = self._name_of(key)
            schema = self.named(name) if name else None
            self._for_kind[key] = schema
            return schema

    def named(self, name: str) -> Schema:
        """Return a named schema, such as ``io.k8s.api.core.v1.PodSpec``; raise KeyError when it is unknown."""
        if name not in self.raw:
            raise KeyError(name)
        return self.compile({"$ref": REFERENCE + name})

    def _name_of(self, key: tuple[str, str, str]) -> str:
        if self._names is None:
            names: dict[tuple[str, str, str], str] = {}
            for name, schema in self.raw.items():
                # Types of every group (DeleteOptions, Status) list many kinds; an object has exactly one.
                kinds: list[dict[str, str]] = schema.get(_GVK) or []
                if len(kinds) == 1:
                    gvk = kinds[0]
                    names[gvk.get("group", ""), gvk.get("version", ""), gvk.get("kind", "")] = name
            self._names = names
        return self._names.get(key, "")

    def compile(self, raw: Any, preserve: bool = False) -> Schema:
        """
        Compile one OpenAPI schema whose references are among these.

        Thread-safe without a lock: a schema is visible to its builder only until it is complete, and the first
        complete one is kept.
        """
        building: _Built = {}
        built = self._compile(raw, preserve, building)
        for identity, schema in building.items():
            self._compiled.setdefault(identity, schema)
        return built

    def _compile(self, raw: Any, preserve: bool, building: _Built) -> Schema:
        name, merged = self._resolve(raw)
        preserve = merged.get(_PRESERVE) is True or (preserve and not name)  # a named type declares it itself
        # Members beside a reference make a type of their own; a bare reference is the type it names.
        identity = (id(merged) if merged is self.raw.get(name) else id(raw), preserve)
        compiled = self._compiled.get(identity) or building.get(identity)
        if compiled is None:
            self._kept_alive.append(raw)  # an id stays ours as long as its object lives
            compiled = building[identity] = Schema(name)
            self._fill(compiled, merged, preserve, building)
        return compiled

    def _resolve(self, raw: Any) -> tuple[str, Mapping[str, Any]]:
        """
        Return the name of the referenced type, and the schema with the members beside the reference merged into it.

        A dangling or circular reference is an undescribed type.
        """
        name = ""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(raw, Mapping):
                break
            parts = raw.get("allOf")
            # A description does not change the type: with it alone beside a reference, the named type is used.
            beside = {key: value for key, value in raw.items() if key not in ("$ref", "allOf", "description")}
            if "$ref" in raw:
                name = str(raw["$ref"]).removeprefix(REFERENCE)
                part = self.raw.get(name)
            elif isinstance(parts, list) and len(parts) == 1:
                part = parts[0]
            else:
                return name, raw
            raw = {**part, **beside} if beside and isinstance(part, Mapping) else part
        return "", {}

    def _fill(self, schema: Schema, raw: Mapping[str, Any], preserve: bool, building: _Built) -> None:
        kind = raw.get("type")
        schema.custom = self._custom
        schema.default = raw.get("default")
        schema.format = _FORMATS.get(schema.name) or str(raw.get("format") or "")
        strategy = str(raw.get("x-kubernetes-patch-strategy") or "")
        schema.patch_strategy = tuple(strategy.split(",")) if strategy else ()
        schema.merge_key = str(raw.get("x-kubernetes-patch-merge-key") or "")
        if raw.get("x-kubernetes-int-or-string") is True:
            is_quantity = str(raw.get("pattern") or "").startswith(_QUANTITY_PATTERN)
            schema.format = "quantity" if is_quantity else "int-or-string"
        if schema.name == _RAW:
            _fill_any(schema)
            schema.map_atomic = True
        elif kind == "object" or "properties" in raw or "additionalProperties" in raw:
            self._fill_map(schema, raw, preserve, building)
        elif kind == "array":
            self._fill_list(schema, raw, preserve, building)
        elif kind in _SCALARS:  # a text of a format but bytes may be any scalar (kube-openapi: convertPrimitive)
            has_format = kind == "string" and schema.format not in ("", "byte")
            schema.scalar = "untyped" if has_format else _SCALARS[kind]
        elif schema.name == _QUANTITY:
            schema.scalar = "untyped"
        else:  # any value: also of an int-or-string, whose schema has no type
            _fill_any(schema)
        schema.scalar_types = _SCALAR_TYPES.get(schema.scalar, _NO_TYPES)

    def _fill_map(self, schema: Schema, raw: Mapping[str, Any], preserve: bool, building: _Built) -> None:
        schema.is_map = True
        schema.map_atomic = raw.get("x-kubernetes-map-type") == "atomic"
        schema.union = next(iter(raw.get("x-kubernetes-unions") or ()), {})
        properties = raw.get("properties") or {}
        additional = raw.get("additionalProperties")
        if isinstance(additional, Mapping) and additional:
            schema.elements = self._compile(additional, preserve, building)
        # A bare ``type: object`` may hold anything, ``additionalProperties: false`` nothing but its properties.
        elif preserve or additional or (additional is None and not properties):
            schema.elements = DEDUCED
        schema.declared = frozenset(properties)
        schema.required = frozenset(raw.get("required") or ())
        schema.fields = Fields(properties, schema.elements, self, preserve)

    def _fill_list(self, schema: Schema, raw: Mapping[str, Any], preserve: bool, building: _Built) -> None:
        schema.is_list = True
        list_type = raw.get("x-kubernetes-list-type")
        schema.list_type = list_type if list_type in ("set", "map") else "atomic"
        schema.keys = tuple(raw.get("x-kubernetes-list-map-keys") or ()) if list_type == "map" else ()
        items = raw.get("items")
        schema.items = self._compile(items, preserve, building) if items else DEDUCED


def _fill_any(schema: Schema) -> None:
    """Make the schema that of any value: maps granular, lists atomic, any scalar."""
    schema.scalar = "untyped"
    schema.is_map = schema.is_list = True
    schema.elements = schema.items = DEDUCED
    schema.fields = DEDUCED.fields


def _as_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a CRD's schema with the members that every object has, here and in embedded resources."""
    out = _embedded(schema)
    return _with_type_meta(out)


def _with_type_meta(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {
        **(schema.get("properties") or {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": REFERENCE + OBJECT_META},
    }
    return {**schema, "type": "object", "properties": properties}


def _embedded(schema: Any) -> Any:
    """Return the schema with the object members added wherever a resource is embedded."""
    if not isinstance(schema, Mapping):
        return schema
    out = dict(schema)
    if "properties" in out:
        out["properties"] = {name: _embedded(member) for name, member in (out["properties"] or {}).items()}
    for key in ("items", "additionalProperties"):
        if key in out:
            out[key] = _embedded(out[key])
    if out.get("x-kubernetes-embedded-resource") is True:
        return _with_type_meta(out)
    return out


def kind_schema(schemas: Schemas, manifest: Manifest) -> Schema | None:
    """
    Return the schema of a manifest's kind, None when it is unknown.

    Where its own version is unknown, use that of the same group and kind at a stable version: retired versions of
    built-in kinds differ little from the one that replaced them. Versions of custom kinds may differ in everything.
    """
    api_version = str(manifest.get("apiVersion") or "")
    group = group_of(api_version)
    kind = str(manifest.get("kind") or "")
    version = api_version.rpartition("/")[2]
    schema = schemas.for_kind(group, version, kind)
    if schema is not None:
        return schema
    # autoscaling/v2beta2 became v2, and has nothing in common with v1
    stable = _PRERELEASE.sub("", version)
    for replacement in (stable, *_STABLE_VERSIONS):
        if builtin().for_kind(group, replacement, kind) is not None:
            return schemas.for_kind(group, replacement, kind)
    return None


@functools.cache
def builtin() -> Schemas:
    """Return the built-in schemas, read once and compiled as they are used."""
    return Schemas(openapi.schemas())


def schema_from_crd(schema: Mapping[str, Any]) -> Schema:
    """Compile the ``openAPIV3Schema`` of one version of a CRD, with the built-in metadata."""
    return builtin().from_crd(schema)


class DefinedKinds:
    """
    The schemas of the kinds that CustomResourceDefinitions among some manifests define.

    A definition is applied before its resources, so that these have to fit it and not the one that is served now.
    Each schema is compiled when it is first used: those of an operator take megabytes.
    """

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        self._raw = dict(_definitions(manifests))
        self._compiled: dict[tuple[str, str], Schema] = {}

    def schema_of(self, manifest: Manifest) -> Schema | None:
        """Return the schema of a manifest's kind at its version, None where no definition has it."""
        key = (str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or ""))
        raw = self._raw.get(key)
        if raw is None:
            return None
        schema = self._compiled.get(key)
        if schema is None:
            schema = self._compiled[key] = schema_from_crd(raw)
        return schema


def _definitions(manifests: Iterable[Manifest]) -> Iterator[tuple[tuple[str, str], Mapping[str, Any]]]:
    for manifest in manifests:
        if manifest.get("kind") != CRD.kind or group_of(str(manifest.get("apiVersion") or "")) != CRD.group:
            continue
        of = defined_kind(manifest)
        # pruning is off for the whole kind, and the API server publishes no schema of it
        if at(manifest, "spec", "preserveUnknownFields") is True:
            continue
        versions = at(manifest, "spec", "versions")
        for version in versions if isinstance(versions, list) else ():
            schema = at(version, "schema", "openAPIV3Schema")
            if isinstance(schema, Mapping) and schema:
                yield (f"{of.group}/{at(version, 'name')}", of.kind), schema


def shipped_schema(manifest: Manifest, defined: DefinedKinds) -> Schema | None:
    """Return the schema of a manifest's kind without a cluster: of a definition, else the one that gitsync ships."""
    api_version = str(manifest.get("apiVersion") or "")
    kind = str(manifest.get("kind") or "")
    version = api_version.rpartition("/")[2]
    return defined.schema_of(manifest) or builtin().for_kind(group_of(api_version), version, kind)
