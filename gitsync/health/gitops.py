"""Health of Applications that are objects of another Application, by the health in their status."""

from __future__ import annotations

from gitsync.health.fields import text
from gitsync.health.rules import Rule
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

_WORDS = {health.value: health for health in Health}


def application(live: Manifest) -> HealthStatus:
    """Judge an Application by the health in its status: a string here, a mapping with a message in Argo CD."""
    found = at(live, "status", "health")
    word = found if isinstance(found, str) else text(found, "status")
    return HealthStatus(_WORDS.get(word, Health.PROGRESSING), text(found, "message") or word)


RULES: dict[GroupKind, Rule] = {
    GroupKind("gitsync.dev", "Application"): application,
    GroupKind("argoproj.io", "Application"): application,
}
