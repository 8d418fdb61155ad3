"""JSON patches (RFC 6902), with the rules of Kustomize where they differ from the library's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gitsync.errors import InvalidInput
from gitsync.kube.json_pointer import unescape
from gitsync.objects.manifest import Manifest
from gitsync.render.resources.resource import copy_value, refuse_large
from gitsync.render.yaml.scalar_types import REWRITTEN, Quoted, is_plain, plain, spelled
from gitsync.render.yaml.scalars import Date, is_text, whole
from gitsync.render.yaml.writer import write
from gitsync.render.yaml.yaml11 import with_old_flags

_LARGE: Final = 10**6
"""From here on, Go spells a number that was a float with an exponent."""


def read_operations(text: bytes | str, document: Any, file: str) -> list[dict[str, Any]] | None:
    """
    Return the operations of a JSON patch whose first document is given, or None where it is none.

    A text that begins with ``[`` must be JSON to the letter, else InvalidInput is raised; any other is YAML, with
    ``yes`` and the like as flags.
    """
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        return None
    source = text if isinstance(text, bytes) else text.encode()
    # Kustomize decides by the first character, without skipping spaces.
    if not source.startswith(b"["):
        return [_as_written(item) for item in with_old_flags(document, source)]
    try:
        import json  # late: most patches are YAML

        operations: list[dict[str, Any]] = json.loads(source, parse_constant=_refuse_constant)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InvalidInput(
            f"a patch that begins with [ must be JSON, and this is not ({error})",
            hint="put names and texts in double quotes, or write a YAML list with - before each operation",
            location=f"{file}:{line}" if isinstance(text, bytes) else file,
        ) from None
    return operations


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _as_written(value: Any) -> Any:
    """Return the value with dates as they were written."""
    if isinstance(value, dict):
        return {key: _as_written(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_written(item) for item in value]
    return value.written if isinstance(value, Date) else value


def _read_again(value: Any) -> Any:
    """Return a value as it is after a way through JSON: numbers are floats of 64 bits, and spelled as Go does."""
    if isinstance(value, dict):
        return {key: _read_again(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_read_again(item) for item in value]
    if isinstance(value, str):
        return str(value) if is_text(value or "~") else Quoted(value)
    if isinstance(value, bool) or value is None:
        return value
    number = float(value)
    if not number.is_integer() or abs(number) >= 1e21:
        return number
    return int(number) if abs(number) < _LARGE else spelled(whole(number), write(number).rstrip())


def apply(manifest: Manifest, operations: Sequence[dict[str, Any]]) -> Manifest:
    """Change the manifest by the operations in order and return it; raise InvalidInput where one fails."""
    import jsonpatch  # only where a JSON patch is used

    if not is_plain(manifest, REWRITTEN):
        manifest = plain(manifest)  # Kustomize writes the object as JSON first
    for number, operation in enumerate(operations):
        name = operation.get("op")
        path = operation.get("path")
        if "" in (path, operation.get("from")):
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name}) means the whole object", hint="name a field in its path"
            )
        # Each copy may double the object.
        if name == "copy":
            refuse_large(manifest)
        try:
            patch = jsonpatch.JsonPatch([_lenient(rooted(copy_value(operation)), manifest)])
            manifest = patch.apply(manifest, in_place=True)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            # The library quotes values, even the whole object, which may be a Secret.
            if isinstance(error, jsonpatch.InvalidJsonPatch):
                why = str(error)
            elif isinstance(error, jsonpatch.JsonPatchTestFailed):
                why = "another value is there"
            else:
                why = "the object has no such place"
            raise InvalidInput(
                f"operation {number} of the JSON patch ({name} {path}) failed: {why}",
                hint="correct the path or the object",
            ) from None
    return {key: _read_again(value) for key, value in manifest.items()}


def rooted(operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation whose pointers begin with a slash: Kustomize ignores what precedes the first one."""
    pointers = {name: operation.get(name) for name in ("path", "from")}
    shortened = {
        name: pointer[pointer.index("/") :]
        for name, pointer in pointers.items()
        if isinstance(pointer, str) and "/" in pointer and pointer[0] != "/"
    }
    return {**operation, **shortened} if shortened else operation


def replaces_annotations(operations: Sequence[dict[str, Any]]) -> bool:
    """Return whether operations take away all annotations that were there."""
    means = ("/metadata", "/metadata/annotations")
    return any(
        operation.get("from" if operation.get("op") == "move" else "path") in means or operation.get("path") in means
        for operation in map(rooted, operations)
        if operation.get("op") != "test"
    )


def _lenient(operation: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """
    Return an operation as the library takes it.

    Kustomize counts from the end, replaces what is absent, and takes no value, or what is absent in a test, for null.
    """
    for member in ("path", "from"):
        if isinstance(operation.get(member), str) and "/-" in operation[member]:
            inserts = member == "path" and operation.get("op") in ("add", "copy", "move")
            operation[member] = _from_start(operation[member], manifest, inserts)
    name = operation.get("op")
    path = operation.get("path")
    if name in ("add", "replace"):
        operation.setdefault("value", None)
    # evanphx/json-patch adds a missing member of a mapping instead of failing.
    if name == "replace" and _is_missing(manifest, path):
        operation["op"] = "add"
    if name == "copy" and _is_missing(manifest, operation.get("from")):
        return {"op": "add", "path": path, "value": None}
    # A missing member equals null there.
    if name == "test" and _is_missing(manifest, path) and operation.get("value", 0) is None:
        return {"op": "test", "path": "", "value": manifest}
    return operation


def _is_missing(manifest: Manifest, pointer: Any) -> bool:
    """Return whether a pointer leads to a mapping that lacks the last name."""
    if not isinstance(pointer, str):
        return False
    *parents, last = [unescape(part) for part in pointer.split("/")[1:]] or [""]
    holder = _at(manifest, parents)
    return isinstance(holder, dict) and last not in holder


def _from_start(pointer: str, manifest: Manifest, inserts: bool) -> str:
    """Return a pointer with indexes that count from the end turned round; an inserted item may follow the last."""
    parts = pointer.split("/")
    for index, part in enumerate(parts):
        if part.startswith("-") and part[1:].isdecimal():
            holder = _at(manifest, [unescape(parent) for parent in parts[1:index]])
            length = len(holder) + (inserts and index == len(parts) - 1) if isinstance(holder, list) else 0
            # A negative index counts from the end (SupportNegativeIndices).
            if int(part) + length >= 0:
                parts[index] = str(int(part) + length)
    return "/".join(parts)


def _at(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value
