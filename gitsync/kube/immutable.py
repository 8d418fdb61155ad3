"""Rejections of updates that only deleting and creating the object again can carry out."""

from __future__ import annotations

import re

from gitsync.errors import GitsyncError, Rejected

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
    if not isinstance(error, Rejected) or error.code != 422 or error.reason not in ("", "Invalid"):
        return ""
    if not error.causes:
        return "the object" if _is_immutable(error.message) else ""
    # A missing or duplicate field would fail again after the delete.
    if all(cause.reason in _FIELD_ERRORS and _is_immutable(cause.message) for cause in error.causes):
        return ", ".join(dict.fromkeys(cause.field or "the object" for cause in error.causes))
    return ""


def _is_immutable(message: str) -> bool:
    """Classify the first line, without the quoted values: further lines show the fields that differ."""
    line, _, _ = message.partition("\n")
    return _IMMUTABLE.search(_QUOTED.sub("", line).lower()) is not None
