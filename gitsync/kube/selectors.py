"""Label selectors and node selectors: which labels they match."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
"""What Go's strconv.ParseInt reads."""


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
            return _compares(value, values, lambda number, bound: number > bound)
        case "Lt":
            return _compares(value, values, lambda number, bound: number < bound)
        case _:
            return value is None


def _compares(value: str | None, bounds: Sequence[str], is_met: Callable[[int, int], bool]) -> bool:
    """Compare a label with the only bound; one that is not an integer meets nothing, as in the scheduler."""
    if value is None or len(bounds) != 1 or not _INTEGER.fullmatch(value) or not _INTEGER.fullmatch(str(bounds[0])):
        return False
    return is_met(int(value), int(bounds[0]))
