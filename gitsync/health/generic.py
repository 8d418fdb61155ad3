"""Health of kinds without a rule, by the conditions and counts that most objects have."""

from __future__ import annotations

from gitsync.health import kstatus
from gitsync.health.kstatus import Status
from gitsync.health.rules import (
    condition_of,
    conditions_of,
    degraded,
    healthy,
    progressing,
    spec_of,
    status_of,
    suspended,
    text,
    unknown,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest

_GOOD_PHASES = frozenset({"active", "available", "bound", "healthy", "ready", "running", "succeeded", "completed"})
_BAD_PHASES = frozenset({"degraded", "invalid", "lost", "unhealthy"})
_FAILURES = ("error", "errored", "failed")
"""Prefixes and suffixes of phases that mean a failure: ``FailedValidation``, ``PartiallyFailed``."""


def assess_generic(live: Manifest) -> HealthStatus:
    """
    Judge an object by its own status; Unknown, not Healthy, when it reports nothing.

    Generation, Stalled, Reconciling and Ready first, then a spec that is suspended on purpose, then counts of
    replicas, then ``status.phase``.
    """
    result = kstatus.compute(live)
    if result.status is Status.FAILED:
        return degraded(result.message or result.reason)
    # After Stalled, before Reconciling: what is suspended does not progress, but may have failed.
    if spec_of(live).get("suspend") is True:
        return suspended(f"{live.get('kind')} is suspended")
    if result.status is not Status.CURRENT:
        return progressing(result.message or result.reason)
    conditions = conditions_of(live)
    # In the order in which operators mean them as their summary; Available may be True while Ready is False.
    for kind in ("Ready", "Available", "Healthy"):
        sign = condition_of(conditions, kind)
        if sign is not None:
            detail = text(sign, "message") or text(sign, "reason")
            return healthy(detail) if sign.get("status") == "True" else progressing(detail)
    return _by_replicas(live) or _by_phase(live)


def _by_replicas(live: Manifest) -> HealthStatus | None:
    wanted = status_of(live).get("replicas")
    ready = status_of(live).get("readyReplicas")
    if not isinstance(wanted, int) or not isinstance(ready, int):
        return None
    detail = f"{ready} of {wanted} replicas are ready"
    # More than wanted is the moment after a scale down.
    return healthy(detail) if ready >= wanted else progressing(detail)


def _by_phase(live: Manifest) -> HealthStatus:
    word = text(live, "status", "phase")
    if word.lower() in _GOOD_PHASES:
        return healthy(word)
    # An unknown phase is work in progress: a new version of an operator adds phases, and must not cause a rollback.
    if word.lower() in _BAD_PHASES or word.lower().startswith(_FAILURES) or word.lower().endswith(_FAILURES):
        return degraded(text(live, "status", "message") or word)
    return progressing(word) if word else unknown("its status reports no condition, count or phase")
