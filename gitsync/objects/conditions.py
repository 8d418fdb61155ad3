"""Conditions of a status, as Kubernetes defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.errors import one_line

READY = "Ready"
SOURCE_READY = "SourceReady"
RENDERED = "Rendered"
GROUP_UNAVAILABLE = "GroupUnavailable"
CLUSTER_UNAVAILABLE = "ClusterUnavailable"
"""The reason of Ready where all is as declared, but for objects whose API group is unavailable."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str = ""


def find_condition(status: Mapping[str, Any], type: str) -> dict[str, Any]:
    """Return the condition of a type, empty where the status has none."""
    return next((item for item in status.get("conditions") or () if item.get("type") == type), {})


def not_ready_message(status: Mapping[str, Any]) -> str:
    """Return the message of Ready where it is ``False``, otherwise an empty string."""
    ready = find_condition(status, READY)
    return str(ready.get("message", "")) if ready.get("status") == "False" else ""


def failed_input(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first of SourceReady and Rendered that is ``False``, empty where neither is."""
    # In the order of the pipeline: without a source, nothing could be rendered.
    inputs = (find_condition(status, type) for type in (SOURCE_READY, RENDERED))
    return next((item for item in inputs if item.get("status") == "False"), {})


def main_message(status: Mapping[str, Any]) -> str:
    """Return the message that explains a status best: of a failed input, else the first problem, else Ready's."""
    if failed := failed_input(status):
        return str(failed.get("message", ""))
    return first_problem(status) or str(find_condition(status, READY).get("message", ""))


def first_problem(status: Mapping[str, Any]) -> str:
    """Return the first problem of a status with its object, empty where there is none."""
    problem: Mapping[str, Any] = next(iter(status.get("problems") or ()), {})
    return about(str(problem.get("object", "")), str(problem.get("message", ""))) if problem else ""


def about(subject: str, text: str) -> str:
    """Return a text with the object that it is about in front, unless it names that itself."""
    return text if subject in text else f"{subject}: {text}"


def set_conditions(
    existing: Iterable[Mapping[str, Any]], conditions: Iterable[Condition], generation: int, now: str
) -> list[dict[str, Any]]:
    """
    Return the conditions with these set, others kept; ``lastTransitionTime`` moves only when ``status`` changes.

    A message is one printable line: it may contain names and texts of manifests.

    Source: Kubernetes API conventions, "Typical status properties".
    """
    # Copies: what was read from the cluster is read-only.
    result = {str(condition["type"]): dict(condition) for condition in existing}
    for condition in conditions:
        previous = result.get(condition.type)
        since = previous["lastTransitionTime"] if previous and previous.get("status") == condition.status else now
        result[condition.type] = {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": one_line(condition.message),
            "observedGeneration": generation,
            "lastTransitionTime": since,
        }
    return list(result.values())
