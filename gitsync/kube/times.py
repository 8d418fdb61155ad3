"""Times as Kubernetes writes them: RFC 3339, in UTC, to the second; and when objects with a TTL end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at

_SUCCEEDED = ("Complete", "Completed", "Succeeded")
"""Condition types of a batch/v1 Job, of a JobSet, and of the jobs of the Kubeflow training operator."""


def timestamp(seconds: float) -> str:
    """Return seconds since the epoch as RFC 3339 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_of(text: str | None) -> float:
    """Return an RFC 3339 time as seconds since the epoch; 0 where absent."""
    return datetime.fromisoformat(text).timestamp() if text else 0.0


class Finish(NamedTuple):
    """Whether an object succeeded, and from when on it is deleted, in seconds since the epoch."""

    succeeded: bool
    expires: float


def is_temporary(manifest: Manifest) -> bool:
    """Whether the object is deleted some time after it finished."""
    return _ttl(manifest) is not None


def finish_of(manifest: Manifest) -> Finish | None:
    """Return how a temporary object ended, None while it runs and for any other object."""
    ttl = _ttl(manifest)
    status = at(manifest, "status", default={})
    if ttl is None:
        return None
    for type in (*_SUCCEEDED, "Failed"):
        condition = find_condition(status, type)
        if condition.get("status") == "True":
            return Finish(type != "Failed", seconds_of(condition.get("lastTransitionTime")) + ttl)
    return None


def _ttl(manifest: Manifest) -> float | None:
    seconds: Any = at(manifest, "spec", "ttlSecondsAfterFinished")
    return seconds if isinstance(seconds, int) else None
