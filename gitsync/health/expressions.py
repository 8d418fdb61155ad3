"""Health by expressions: an application's own rules for kinds that have none here, in CEL."""

from __future__ import annotations

import functools
from typing import Any

from gitsync.errors import InvalidInput
from gitsync.health.assess import pending_deletion
from gitsync.health.rules import degraded, healthy, progressing
from gitsync.objects.application import HealthCheck
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, metadata_of


def assess_by(check: HealthCheck, live: Manifest) -> HealthStatus:
    """
    Return the health that an application's check says of a live object.

    An expression that cannot be evaluated, such as one on a status that is not there yet, is not true. Raise
    InvalidInput for one that is no CEL.
    """
    if metadata_of(live).get("deletionTimestamp"):
        return pending_deletion(live)
    if check.degraded and _holds(check.degraded, live):
        return degraded(f"failed: {check.degraded}")
    if _holds(check.healthy, live):
        return healthy()
    return progressing(f"not yet: {check.healthy}")


def _holds(expression: str, live: Manifest) -> bool:
    # An evaluation error comes back as a value that counts as true, so nothing but True will do.
    return _compiled(expression).eval(data={"object": live}).value() is True


@functools.lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    try:
        return _environment().compile(expression)
    except RuntimeError as error:
        raise InvalidInput(
            f"{expression!r} is no CEL expression: {str(error).splitlines()[0]}", location="spec.healthChecks"
        ) from error


@functools.cache
def _environment() -> Any:
    from cel_expr_python import cel  # late: the library is large, and most applications have no checks

    return cel.NewEnv(variables={"object": cel.Type.DYN})
