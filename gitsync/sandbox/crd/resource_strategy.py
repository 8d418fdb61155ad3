"""The strategy of a custom resource at one version of its definition."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.crd.cel_rules import validate_rules
from gitsync.sandbox.crd.structural import SchemaNode, compile_schema, prune, unknown_fields, with_defaults
from gitsync.sandbox.crd.validator import validate_lists, validate_value
from gitsync.sandbox.errors import ApiError, StatusCause
from gitsync.sandbox.registry.contract import WriteContext
from gitsync.sandbox.registry.scale import ScalePaths, declared_paths
from gitsync.sandbox.schema.decode import metadata_codec
from gitsync.sandbox.schema.scalars import DecodeError
from gitsync.sandbox.validation.causes import invalid
from gitsync.sandbox.validation.metadata import MetadataChecks, validate_metadata, validate_metadata_update
from gitsync.sandbox.validation.names import dns_subdomain

_GO_TYPES = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}", type(None): "<nil>"}
_MAP = "map[string]interface {}"


def validate_scale(paths: ScalePaths, obj: Manifest, subresource: str) -> list[StatusCause]:
    """
    Check replicas and selector where the definition keeps them; a write of the status leaves the spec alone.

    The rules are of apiextensions-apiserver/pkg/registry/customresource: ValidateScaleSpec and ValidateScaleStatus.
    """
    wanted, actual, selector = paths
    causes = [] if subresource == "status" else _replicas(obj, wanted)
    causes += _replicas(obj, actual)
    if not selector:
        return causes
    _, problem = _value(obj, selector, str)
    return causes + ([invalid(f".{selector}", "", problem)] if problem else [])


def _replicas(obj: Manifest, path: str) -> list[StatusCause]:
    count, problem = _value(obj, path, int)
    if problem:
        return [invalid(f".{path}", 0, problem)]
    if count is not None and count < 0:
        return [invalid(f".{path}", count, "should be a non-negative integer")]
    if count is not None and count > 2**31 - 1:
        return [invalid(f".{path}", count, f"should be less than or equal to {2**31 - 1}")]
    return []


def _value(obj: Manifest, path: str, wanted: type) -> tuple[Any, str]:
    """Return the value at a path, None where there is none, and what is wrong with it as Go words it."""
    value: Any = obj
    for part in path.split("."):
        if type(value) is not dict:
            return None, _of_type(path, value, _MAP)
        if part not in value:
            return None, ""
        value = value[part]
    return (value, "") if type(value) is wanted else (None, _of_type(path, value, _GO_TYPES[wanted]))


def _of_type(path: str, value: Any, wanted: str) -> str:
    return f".{path} accessor error: {value} is of the type {_GO_TYPES.get(type(value), _MAP)}, expected {wanted}"


_METADATA = MetadataChecks(whole=0, names=False)
_BLOCKING = frozenset(f"FieldValue{name}" for name in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid"))
"""Causes after which rules in CEL are not evaluated."""
_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_META_MEMBERS = ("apiVersion", "kind", "metadata")


@dataclass(frozen=True, slots=True)
class CustomResource:
    """Strategy made from a definition; values are taken as they are but for pruning and defaults."""

    kind: str
    version: str
    root: SchemaNode
    namespaced: bool
    has_status: bool
    has_generation: bool = True
    scale: ScalePaths | None = None
    needs_resource_version: bool = True
    generation_metadata: tuple[str, ...] = ()

    def default(self, obj: Manifest, *, merged: bool = False) -> Manifest:
        """Return the object with its defaults; 400 when its metadata is not of the right types."""
        out: Manifest = dict(with_defaults(self.root, obj))
        try:
            out["metadata"] = metadata_codec().metadata(obj.get("metadata"))
        except DecodeError as error:
            text = f'{self.kind} in version "{self.version}" cannot be handled as a {self.kind}: {error}'
            raise ApiError(400, "BadRequest", text) from None
        return out

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of members that the schema does not declare."""
        return unknown_fields(self.root, obj)

    def prune(self, obj: Manifest) -> Manifest:
        """Return the object without the members that the schema does not declare."""
        pruned: Manifest = prune(self.root, obj)
        return pruned

    def pruned_with_defaults(self, obj: Manifest) -> Manifest:
        """Return an object that comes from another version as this version's schema stores it."""
        stored: Manifest = with_defaults(self.root, self.prune(obj))
        return stored

    def prepare(self, new: Manifest, old: Manifest | None, subresource: str, env: WriteContext) -> Manifest:
        """Return what is stored: through ``status`` nothing but the status, else everything but it."""
        if not self.has_status:
            return new
        if subresource == "status" and old is not None:
            return _with_status({**old, "metadata": _keep_metadata(new, old)}, new)
        return _with_status(new, old or {})

    def settle(self, new: Manifest, old: Manifest, env: WriteContext) -> Manifest:
        """Return the object."""
        return new

    def validate(self, new: Manifest, old: Manifest | None, subresource: str) -> list[StatusCause]:
        """Return what is wrong by the metadata's rules, the schema, and then the rules written in CEL."""
        if old is None:
            causes = validate_metadata(new, self.namespaced, dns_subdomain)
        else:
            causes = validate_metadata_update(new, self.namespaced, _METADATA)
        causes += validate_value(self.root, new, "")
        causes += validate_lists(self.root, new, "")
        if self.scale is not None:
            causes += validate_scale(self.scale, new, subresource)
        if not self.root.has_rules:
            return causes
        # CEL rules are compiled for the types of the schema, so values of other types cannot be evaluated.
        if any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, invalid("<nil>", None, _NOT_CHECKED)]
        return causes + validate_rules(self.root, new, old, "")


def _with_status(obj: Manifest, source: Manifest) -> Manifest:
    out = {key: value for key, value in obj.items() if key != "status"}
    if "status" in source:
        out["status"] = source["status"]
    return out


def _keep_metadata(new: Manifest, old: Manifest) -> dict[str, Any]:
    metadata = dict(old["metadata"])
    metadata.pop("managedFields", None)
    if new["metadata"].get("managedFields"):
        metadata["managedFields"] = new["metadata"]["managedFields"]
    return metadata


def version_of(crd: Manifest, version: str) -> dict[str, Any]:
    """Return one version of a definition; raise KeyError when it has no such version."""
    for candidate in crd["spec"]["versions"]:
        if candidate["name"] == version:
            declared: dict[str, Any] = candidate
            return declared
    raise KeyError(version)


def strategy(crd: Manifest, version: str) -> CustomResource:
    """Return the strategy of one version of a definition; raise KeyError when it has no such version."""
    declared = version_of(crd, version)
    schema = (declared.get("schema") or {}).get("openAPIV3Schema") or {}
    return CustomResource(
        kind=crd["spec"]["names"]["kind"],
        version=version,
        root=_compiled(json.dumps(schema)),
        namespaced=crd["spec"]["scope"] == "Namespaced",
        has_status="status" in (declared.get("subresources") or {}),
        scale=declared_paths(declared),
    )


# By content: a version that is served has three strategies, for its objects and for each direction of conversion, and
# the definitions of gitsync are those of nearly all sandboxes. Not by orjson, which has no integers above 64 bits.
@lru_cache(maxsize=64)
def _compiled(schema: str) -> SchemaNode:
    """Return the node of a schema in JSON, which nothing changes."""
    return compile_schema(json.loads(schema))
