"""Label selectors and node selectors: which labels they match."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def matches(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether a LabelSelector matches the labels; an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(holds(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether labels meet a requirement, also the ``Gt`` and ``Lt`` of node selectors."""
    value = labels.get(requirement.get("key", ""))
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "Gt":
            return _is_integer(value) and int(value or 0) > int(values[0])
        case "Lt":
            return _is_integer(value) and int(value or 0) < int(values[0])
        case _:
            return value is None


def _is_integer(value: str | None) -> bool:
    return value is not None and value.lstrip("-").isdigit()
