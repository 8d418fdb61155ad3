"""Conditions of a status, as Kubernetes has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str = ""


def set_conditions(
    existing: Iterable[Mapping[str, Any]], conditions: Iterable[Condition], generation: int, now: str
) -> list[dict[str, Any]]:
    """
    Return the conditions with these set, others kept; ``lastTransitionTime`` moves only when ``status`` changes.

    Source: Kubernetes API conventions, "Typical status properties".
    """
    result = {str(condition["type"]): dict(condition) for condition in existing}
    for condition in conditions:
        before = result.get(condition.type)
        since = before["lastTransitionTime"] if before and before.get("status") == condition.status else now
        result[condition.type] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "observedGeneration": generation,
            "lastTransitionTime": since,
        }
    return list(result.values())
