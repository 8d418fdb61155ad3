"""Validation of the values at the paths of a custom resource's scale subresource."""

from __future__ import annotations

from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.registry.scale import ScalePaths
from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import invalid

_GO_TYPES = {str: "string", bool: "bool", float: "float64", int: "int64", list: "[]interface {}", type(None): "<nil>"}
_MAP = "map[string]interface {}"


def validate_scale(paths: ScalePaths, obj: Manifest, subresource: str) -> list[Cause]:
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


def _replicas(obj: Manifest, path: str) -> list[Cause]:
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
