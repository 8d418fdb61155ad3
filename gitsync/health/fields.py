"""Read the fields that health rules use: conditions, counts, generations. Values of the wrong type count as absent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gitsync.objects.manifest import Manifest, at


def status_of(live: Manifest) -> dict[str, Any]:
    """Return ``status``, empty where it is absent or not a mapping."""
    value = live.get("status")
    return value if isinstance(value, dict) else {}


def spec_of(live: Manifest) -> dict[str, Any]:
    """Return ``spec``, empty where it is absent or not a mapping."""
    value = live.get("spec")
    return value if isinstance(value, dict) else {}


def items(value: Any, *path: str) -> list[dict[str, Any]]:
    """Return the mappings of a list at a path."""
    found = at(value, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def conditions(live: Manifest) -> list[dict[str, Any]]:
    """Return ``status.conditions``."""
    return items(live, "status", "conditions")


def condition(found: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """Return the first condition of a type."""
    return next((each for each in found if each.get("type") == kind), None)


def is_outdated(live: Manifest) -> bool:
    """Whether the status is that of an older generation; one without ``observedGeneration`` counts as current."""
    generation = number(live, "metadata", "generation")
    return number(live, "status", "observedGeneration", default=generation) < generation


def number(value: Any, *path: str, default: int = 0) -> int:
    """Return the integer at a path."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else default


def text(value: Any, *path: str, default: str = "") -> str:
    """Return the string at a path."""
    found = at(value, *path)
    return found if isinstance(found, str) else default


def message(condition: dict[str, Any]) -> str:
    """Return the message of a condition."""
    return text(condition, "message")


def containers(pod: Manifest) -> Iterator[dict[str, Any]]:
    """Yield the statuses of the containers of a pod, init containers first."""
    yield from items(pod, "status", "initContainerStatuses")
    yield from items(pod, "status", "containerStatuses")
