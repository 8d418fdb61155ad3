"""Building blocks of health rules: verdicts, and readers of fields. Values of the wrong type count as absent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at

Rule: TypeAlias = Callable[[Manifest], HealthStatus]


def healthy(message: str = "") -> HealthStatus:
    """Return Healthy."""
    return HealthStatus(Health.HEALTHY, message)


def progressing(message: str = "") -> HealthStatus:
    """Return Progressing: not complete yet, and without a failure."""
    return HealthStatus(Health.PROGRESSING, message)


def degraded(message: str = "") -> HealthStatus:
    """Return Degraded: failed, or unable to complete by itself."""
    return HealthStatus(Health.DEGRADED, message)


def suspended(message: str = "") -> HealthStatus:
    """Return Suspended: stopped on purpose."""
    return HealthStatus(Health.SUSPENDED, message)


def unknown(message: str = "") -> HealthStatus:
    """Return Unknown: the object reports nothing about its health."""
    return HealthStatus(Health.UNKNOWN, message)


def status_of(live: Manifest) -> dict[str, Any]:
    """Return ``status``, empty where it is absent or not a mapping."""
    value = live.get("status")
    # A CRD without a schema lets anything be stored here, and one bad object must not stop the others.
    return value if isinstance(value, dict) else {}


def spec_of(live: Manifest) -> dict[str, Any]:
    """Return ``spec``, empty where it is absent or not a mapping."""
    value = live.get("spec")
    return value if isinstance(value, dict) else {}


def items(value: Any, *path: str) -> list[dict[str, Any]]:
    """Return the mappings of a list at a path."""
    listed = at(value, *path)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def conditions_of(live: Manifest) -> list[dict[str, Any]]:
    """Return ``status.conditions``."""
    return items(live, "status", "conditions")


def condition_of(conditions: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """Return the first condition of a type."""
    # Types are unique by convention only; controllers with duplicates mean the first, or reverse the list before.
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def is_outdated(live: Manifest) -> bool:
    """Whether the status is that of an older generation; one without ``observedGeneration`` counts as current."""
    generation = number(live, "metadata", "generation")
    return number(live, "status", "observedGeneration", default=generation) < generation


def number(value: Any, *path: str, default: int = 0) -> int:
    """Return the integer at a path."""
    counted = at(value, *path)
    # In Python true is an int; a field of that type is not a count.
    return counted if isinstance(counted, int) and not isinstance(counted, bool) else default


def text(value: Any, *path: str, default: str = "") -> str:
    """Return the string at a path."""
    word = at(value, *path)
    return word if isinstance(word, str) else default


def message(condition: dict[str, Any]) -> str:
    """Return the message of a condition."""
    return text(condition, "message")


def reason_of(condition: dict[str, Any]) -> str:
    """Return the message of a condition, else its reason: many controllers set only that."""
    return message(condition) or text(condition, "reason")


def containers(pod: Manifest) -> Iterator[dict[str, Any]]:
    """Yield the statuses of the containers of a pod, init containers first."""
    # Init containers first: the others wait for them, and their reason PodInitializing explains nothing.
    yield from items(pod, "status", "initContainerStatuses")
    yield from items(pod, "status", "containerStatuses")
