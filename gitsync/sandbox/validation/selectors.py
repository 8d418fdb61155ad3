"""Label selectors: their syntax, and whether they match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.sandbox.registry.status import Cause
from gitsync.sandbox.validation.causes import forbidden, invalid, required
from gitsync.sandbox.validation.names import label_value, qualified_name

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def validate_labels(labels: Mapping[str, str] | None, field: str) -> list[Cause]:
    """Check the keys and values of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += [invalid(field, key, text) for text in qualified_name(key)]
        causes += [invalid(field, value, text) for text in label_value(value)]
    return causes


def validate_selector(selector: Mapping[str, Any] | None, field: str) -> list[Cause]:
    """Check the syntax of a LabelSelector."""
    if selector is None:
        return []
    causes = validate_labels(selector.get("matchLabels"), f"{field}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        causes += _requirement(requirement, f"{field}.matchExpressions[{index}]")
    return causes


def _requirement(requirement: Mapping[str, Any], field: str) -> list[Cause]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes = []
    if operator in ("In", "NotIn") and not values:
        causes.append(required(f"{field}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist") and values:
        text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        causes.append(forbidden(f"{field}.values", text))
    elif operator not in _OPERATORS:
        causes.append(invalid(f"{field}.operator", operator, "not a valid selector operator"))
    key = requirement.get("key", "")
    causes += [invalid(f"{field}.key", key, text) for text in qualified_name(key)]
    for index, value in enumerate(values):
        causes += [invalid(f"{field}.values[{index}]", value, text) for text in label_value(value)]
    return causes


def is_empty(selector: Mapping[str, Any] | None) -> bool:
    """Return whether the selector has no requirement, so that it matches everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))
