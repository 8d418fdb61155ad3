"""Building blocks of health rules: a rule is a pure function from a live object to its health."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest

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
