"""Health: how well a live object does its work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

NEAR_BUDGET = "near its budget"
"""Beginning of the message of an Agent that has used most of what it may use today."""
OVER_BUDGET = "over its budget"
STOPPED_BY_BUDGET = "stopped by its budget"
"""Beginning of the message of an Agent that its budget suspended."""


class Health(Enum):
    """The health of an object or of a whole application, listed from best to worst."""

    HEALTHY = "Healthy"
    SUSPENDED = "Suspended"
    PROGRESSING = "Progressing"
    MISSING = "Missing"
    DEGRADED = "Degraded"
    UNKNOWN = "Unknown"

    @property
    def badness(self) -> int:
        """0 for Healthy and more the worse it is."""
        return _ORDER[self]


# Once, not per comparison: an application has the health of thousands of objects to compare.
_ORDER = {health: index for index, health in enumerate(Health)}


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """A health and the reason for it in words, empty when there is nothing to say."""

    health: Health
    message: str = ""


def worst(healths: Iterable[Health]) -> Health:
    """Return the worst of the healths; Healthy when there are none."""
    distinct = (health for health, _ in groupby(healths))  # of many objects, most have the same
    return max(distinct, key=lambda health: health.badness, default=Health.HEALTHY)
