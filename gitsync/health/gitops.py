"""Health of Applications and ApplicationSets that are objects of another Application, by their status."""

from __future__ import annotations

from gitsync.health.fields import condition, conditions, message, number, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

_WORDS = {health.value: health for health in Health}


def application(live: Manifest) -> HealthStatus:
    """Judge an Application by the health in its status: a string here, a mapping with a message in Argo CD."""
    found = at(live, "status", "health")
    word = found if isinstance(found, str) else text(found, "status")
    return HealthStatus(_WORDS.get(word, Health.PROGRESSING), text(found, "message") or word)


def application_set(live: Manifest) -> HealthStatus:
    """
    Judge an ApplicationSet by its conditions; one whose deletions wait for an approval is Suspended.

    The health of its Applications is their own: a set has done its work once they are as their elements say.
    """
    if number(live, "status", "observedGeneration") != number(live, "metadata", "generation"):
        return progressing("Waiting for the newest generation to be reconciled")
    ready, stalled = (condition(conditions(live), one) or {} for one in ("Ready", "Stalled"))
    if ready.get("status") == "True":
        return healthy(message(ready))
    if ready.get("reason") == "AwaitingApproval":
        return suspended(message(ready))
    return degraded(message(stalled)) if stalled.get("status") == "True" else progressing(message(ready))


RULES: dict[GroupKind, Rule] = {
    GroupKind("gitsync.dev", "Application"): application,
    GroupKind("gitsync.dev", "ApplicationSet"): application_set,
    GroupKind("argoproj.io", "Application"): application,
}
