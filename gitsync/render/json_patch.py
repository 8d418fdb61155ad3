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
            one = jsonpatch.JsonPatch([_lenient(copy_value(operation), manifest)])
            manifest = one.apply(manifest, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name} {path}) failed: {error}",
                cure="correct the path or the object",
            ) from None
    return manifest


def _lenient(operation: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Return an operation as the library takes it: Kustomize counts from the end, and replaces what is absent."""
    for member in ("path", "from"):
        if isinstance(operation.get(member), str) and "/-" in operation[member]:
            inserts = member == "path" and operation.get("op") in ("add", "copy", "move")
            operation[member] = _from_start(operation[member], manifest, inserts)
    if operation.get("op") == "replace" and isinstance(operation.get("path"), str):
        *parents, last = [_unescaped(part) for part in operation["path"].split("/")[1:]] or [""]
        holder = _at(manifest, parents)
        if isinstance(holder, dict) and last not in holder:
            operation["op"] = "add"
    if operation.get("op") == "copy" and isinstance(operation.get("from"), str):
        *parents, last = [_unescaped(part) for part in operation["from"].split("/")[1:]] or [""]
        holder = _at(manifest, parents)
        if isinstance(holder, dict) and last not in holder:
            return {"op": "add", "path": operation.get("path"), "value": None}
    return operation


def _from_start(pointer: str, manifest: Manifest, inserts: bool) -> str:
    """Return a pointer with indexes that count from the end turned round; an inserted item may follow the last."""
    parts = pointer.split("/")
    for index, part in enumerate(parts):
        if part.startswith("-") and part[1:].isdigit():
            holder = _at(manifest, [_unescaped(one) for one in parts[1:index]])
            length = len(holder) + (inserts and index == len(parts) - 1) if isinstance(holder, list) else 0
            if int(part) + length >= 0:
                parts[index] = str(int(part) + length)
    return "/".join(parts)


def _at(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
