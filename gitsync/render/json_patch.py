"""JSON patches (RFC 6902), with the rules of Kustomize where they differ from the library's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.render.resource import copy_value

_EXACT: Final = 1 << 53


def check_operations(value: Any) -> list[dict[str, Any]] | None:
    """Return the operations of a JSON patch, or None where the value is not a list of operations."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return None
    return [_as_float64(item) for item in value]


def _as_float64(value: Any) -> Any:
    """Return the value with the precision that Kustomize leaves to large numbers in a patch."""
    if isinstance(value, dict):
        return {key: _as_float64(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_float64(item) for item in value]
    if isinstance(value, int) and abs(value) > _EXACT:
        return int(float(value))
    return value


def apply(manifest: Manifest, operations: Sequence[dict[str, Any]]) -> Manifest:
    """Change the manifest by the operations in order and return it; raise InvalidInput where one fails."""
    import jsonpatch  # only where a JSON patch is used

    for number, operation in enumerate(operations):
        name, path = operation.get("op"), operation.get("path")
        try:
            manifest = jsonpatch.JsonPatch([copy_value(operation)]).apply(manifest, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name} {path}) failed: {error}",
                cure="correct the path or the object",
            ) from None
    return manifest
