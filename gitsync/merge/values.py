"""
JSON values as the API server defines them: equality, JSON merge patch (RFC 7386), and JSON patch (RFC 6902).

JSON patch differs from the standard in points that clients rely on: ``replace`` of a member that a map does not have
adds it, ``copy`` of one gives null, and negative positions count from the end. Work is bounded: the
number of operations, and the bytes that ``copy`` may add.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from gitsync.errors import InvalidInput
from gitsync.objects.manifest import pointer_parts


def same(a: Any, b: Any) -> bool:
    """
    Whether two JSON values are equal: numbers by value, and never equal to booleans.

    Quantities are compared as they are spelled: applying ``1000m`` over a stored ``1`` is another value.
    """
    if a is b:
        return True
    if a != b:
        return False
    kind = type(a)
    if kind is dict:
        return all(same(value, b[key]) for key, value in a.items())
    if kind is list:
        return all(map(same, a, b))
    return (kind is bool) is (type(b) is bool)


def merge_patch(value: Any, patch: Any) -> Any:
    """
    Return a value with a merge patch applied: members are merged, null removes, anything else replaces.

    The input is not changed; what the patch does not touch is shared, and a patch that changes nothing gives
    back an equal value.
    """
    if not isinstance(patch, dict):
        return patch
    out = dict(value) if isinstance(value, dict) else {}
    for name, member in patch.items():
        if member is None:
            out.pop(name, None)
        else:
            out[name] = merge_patch(out.get(name), member)
    return out


# maxJSONPatchOperations of the API server's patch handler
MAX_OPERATIONS: Final = 10_000
# JSONPatchMaxCopyBytes, the API server's default
MAX_COPIED: Final = 3 * 1024 * 1024
# Go's Atoi accepts a sign and 64 bits; Python's int() raises ValueError beyond 4,300 digits.
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class JsonPatchError(InvalidInput):
    """An operation cannot be carried out; the API server gives no details to its clients."""


class JsonPatchFormatError(InvalidInput):
    """The patch is not a list of operations."""


def json_patch(value: Any, operations: Any) -> Any:
    """
    Return a value after the operations, all of them or none; the input is not changed.

    Raise JsonPatchFormatError where the patch is not a list of maps, JsonPatchError where an operation fails.
    """
    if not isinstance(operations, list) or any(not isinstance(item, dict) for item in operations):
        raise JsonPatchFormatError("a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise JsonPatchFormatError(
            f"the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    copied = 0
    for operation in operations:
        name = operation.get("op")
        carry_out = _OPERATIONS.get(name) if isinstance(name, str) else None
        if carry_out is None:
            raise JsonPatchError(f"unexpected operation {name!r}")
        value, added = carry_out(value, operation)
        # Summed over the patch: each of many copies may be small and still double the document.
        copied += added
        if copied > MAX_COPIED:
            raise JsonPatchError(f"copy operations add more than {MAX_COPIED} bytes")
    return value


def _add(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    return _changed(value, _path(operation, "path"), lambda parent, key: _put(parent, key, operation.get("value"))), 0


def _replace(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    # The whole document has no container in which a member could be replaced.
    if operation.get("path") == "":
        return operation.get("value"), 0

    def put(parent: Any, key: str) -> Any:
        if isinstance(parent, list):
            index = _index(parent, key)
            return [*parent[:index], operation.get("value"), *parent[index + 1 :]]
        return {**parent, key: operation.get("value")}

    return _changed(value, _path(operation, "path"), put), 0


def _remove(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    return _taken(value, _path(operation, "path")), 0


def _move(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    source = _path(operation, "from")
    moved = _at(value, source)
    # RFC 6902, 4.4: remove, then add; the target is resolved in the document without the moved value.
    remainder = _taken(value, source)
    return _changed(remainder, _path(operation, "path"), lambda parent, key: _put(parent, key, moved)), 0


def _copy(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    copied = _at_or_null(value, _path(operation, "from"))
    out = _changed(value, _path(operation, "path"), lambda parent, key: _put(parent, key, copied))
    return out, len(orjson.dumps(copied))


def _test(value: Any, operation: dict[str, Any]) -> tuple[Any, int]:
    value_at_path = value if operation.get("path") == "" else _at_or_null(value, _path(operation, "path"))
    if not same(value_at_path, operation.get("value")):
        raise JsonPatchError(f"testing value {operation.get('path')} failed")
    return value, 0


_OPERATIONS: Final[dict[str, Callable[[Any, dict[str, Any]], tuple[Any, int]]]] = {
    "add": _add,
    "replace": _replace,
    "remove": _remove,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _path(operation: dict[str, Any], member: str) -> list[str]:
    """Return the parts of a JSON pointer; the text before the first slash is ignored."""
    pointer = operation.get(member)
    names = pointer_parts(pointer) if isinstance(pointer, str) else ()
    if not names:
        raise JsonPatchError(f"operation {operation.get('op')} has no {member} below the document")
    return list(names)


def _at(value: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list):
            value = value[_index(value, part)]
        else:
            raise JsonPatchError(f"nothing at {part!r}")
    return value


def _at_or_null(value: Any, path: list[str]) -> Any:
    """Return the value at a path; a member that a map does not have is null, a missing map is an error."""
    parent = _at(value, path[:-1])
    return parent.get(path[-1]) if isinstance(parent, dict) else _at(parent, path[-1:])


def _changed(value: Any, path: list[str], change: Callable[[Any, str], Any]) -> Any:
    """Return a copy of a value with a function applied to the container of a path and its last part."""
    parents = [value]
    for part in path[:-1]:
        parents.append(_at(parents[-1], [part]))
    if not isinstance(parents[-1], dict | list):
        raise JsonPatchError(f"nothing to change at {path[-1]!r}")
    out = change(parents[-1], path[-1])
    for parent, part in zip(reversed(parents[:-1]), reversed(path[:-1]), strict=True):
        if isinstance(parent, list):
            index = _index(parent, part)
            out = [*parent[:index], out, *parent[index + 1 :]]
        else:
            out = {**parent, part: out}
    return out


def _taken(value: Any, path: list[str]) -> Any:
    def take(parent: Any, key: str) -> Any:
        if isinstance(parent, list):
            index = _index(parent, key)
            return [*parent[:index], *parent[index + 1 :]]
        if key not in parent:
            raise JsonPatchError(f"unable to remove nonexistent key: {key}")
        return {name: member for name, member in parent.items() if name != key}

    return _changed(value, path, take)


def _put(parent: Any, key: str, value: Any) -> Any:
    if isinstance(parent, dict):
        return {**parent, key: value}
    # Negative positions count from the end: -1 adds the last item, or names it where there is one.
    index = len(parent) if key == "-" else _number(key)
    index += len(parent) + 1 if index < 0 else 0
    if not 0 <= index <= len(parent):
        raise JsonPatchError(f"index {key} is out of bounds")
    return [*parent[:index], value, *parent[index:]]


def _index(items: list[Any], key: str) -> int:
    index = _number(key)
    index += len(items) if index < 0 else 0
    if not 0 <= index < len(items):
        raise JsonPatchError(f"index {key} is out of bounds")
    return index


def _number(key: str) -> int:
    if not _NUMBER.fullmatch(key):
        raise JsonPatchError(f"{key!r} is not an index")
    return int(key)
