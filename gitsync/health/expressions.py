"""Health checks in CEL that an Application defines for kinds without built-in rules."""

from __future__ import annotations

from gitsync.errors import InvalidInput
from gitsync.health.assess import pending_deletion
from gitsync.health.rules import degraded, healthy, progressing
from gitsync.kube import cel
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, metadata_of


def assess_by(check: HealthCheck, live: Manifest) -> HealthStatus:
    """
    Return the health of a live object by an Application's check.

    An expression that cannot be evaluated, such as one on a status that is still absent, is not true. Raise
    InvalidInput for one that is not valid CEL.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    if check.degraded and _holds(check.degraded, live):
        return degraded(f"failed: {check.degraded}")
    if _holds(check.healthy, live):
        return healthy()
    return progressing(f"not yet: {check.healthy}")


def _holds(expression: str, live: Manifest) -> bool:
    try:
        return cel.holds(expression, live)
    except ValueError as error:
        raise InvalidInput(f"{expression!r} is not valid CEL: {error}", location="spec.healthChecks") from error
