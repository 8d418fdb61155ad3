"""Messages of the API server: without values as Go prints them, and which say that only a new object can be written."""

from __future__ import annotations

import re
from typing import Final

from gitsync.errors import GitsyncError, Rejected

_STRING = "expected string, got "
_UNTYPED = "&value.valueUnstructured{Value:"
_VALUE = re.compile(r"Invalid value: \{")
_SHOWN = 120
"""Characters of a structured value that are shown."""
_STRUCT = re.compile(r"(?:&|\[\])?[a-z][a-z0-9]*\.[A-Z]\w*\{")


def readable(message: str) -> str:
    """Return a message without Go structs: ``expected string, got 1; quote the value``."""
    while (start := message.find(_UNTYPED)) >= 0:
        end = _closing(message, start + len(_UNTYPED))
        value = message[start + len(_UNTYPED) : end - 1]
        before = message[:start]
        if before.endswith(_STRING) and not value.endswith("}"):
            message = f"{before.removesuffix(_STRING)}must be a string, not {value}: quote the value{message[end:]}"
        else:  # a list or map, which quotes would not make a string
            message = f"{before}{value}{message[end:]}"
    message = _without_long_values(message)
    while (struct := _STRUCT.search(message)) is not None:
        end = _closing(message, struct.end())
        message = f"{message[: struct.start()]}(…){message[end:]}"
    return message


def _without_long_values(message: str) -> str:
    """Return a message without the long values of field errors: what is wrong follows them and would be cut off."""
    parts = []
    start = 0
    for value in _VALUE.finditer(message):
        end = _closing(message, value.end())
        if value.end() > start and end - value.end() > _SHOWN:
            parts.append(message[start : value.end() - 1] + "(…)")
            start = end
    return "".join(parts) + message[start:]


def _closing(text: str, start: int) -> int:
    """Return the index after the brace that closes the one before ``start``; braces in quoted texts do not count."""
    depth = 1
    is_quoted = False
    index = start
    while index < len(text) and depth:
        char = text[index]
        if char == "\\" and is_quoted:
            index += 1
        elif char == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (char == "{") - (char == "}")
        index += 1
    return index


_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_IMMUTABLE = re.compile(
    r"immutable"  # most fields, and the usual message of CRD rules
    r"|updates to .* are forbidden"  # StatefulSet, VolumeAttributesClass
    r"|may not (?:be )?change"  # Service, Pod, PriorityClass
    r"|can ?not (?:be )?change"  # roleRef
    r"|failed rule: .*oldself",  # CRD transition rules without a message
)
"""The API server has no reason of its own for immutable fields; these texts are tested against recorded answers."""
_FIELD_ERRORS = ("FieldValueInvalid", "FieldValueForbidden")


def immutable_fields(error: GitsyncError) -> str:
    """
    Return the immutable fields for which the API server rejected an update, empty for any other error.

    Every cause must be an immutable field: an object with another invalid field could be deleted, but not created
    again. An answer without causes is classified by its message.
    """
    if not isinstance(error, Rejected) or error.code != 422 or error.refusal.reason not in ("", "Invalid"):
        return ""
    if not error.refusal.causes:
        return "the object" if _is_immutable(error.message) else ""
    # A missing or duplicate field would fail again after the delete.
    if all(cause.reason in _FIELD_ERRORS and _is_immutable(cause.message) for cause in error.refusal.causes):
        return ", ".join(dict.fromkeys(cause.field or "the object" for cause in error.refusal.causes))
    return ""


REMOVED_VERSION: Final = "request to convert CR to an invalid group/version"
"""The answer to an apply where ``managedFields`` name a version that the definition lacks (apiextensions-apiserver)."""
_VERSION_REMOVED = re.compile(rf"{REMOVED_VERSION}: (\S+)")


def removed_version(error: GitsyncError) -> str:
    """Return the apiVersion for which an apply was refused, since its definition lacks it now; empty for others."""
    match = _VERSION_REMOVED.search(error.message) if isinstance(error, Rejected) else None
    return match[1] if match else ""


def is_misfit(error: GitsyncError) -> bool:
    """Whether the API server cannot merge into an object since what it stores does not fit its definition any more."""
    return isinstance(error, Rejected) and "failed to create typed live object" in error.message


def _is_immutable(message: str) -> bool:
    """Classify the first line, without the quoted values: further lines show the fields that differ."""
    line, _, _ = message.partition("\n")
    return _IMMUTABLE.search(_QUOTED.sub("", line).lower()) is not None
