"""Objects that end by themselves and are then deleted: Jobs and others with ``spec.ttlSecondsAfterFinished``."""

from __future__ import annotations

from typing import Any, NamedTuple

from gitsync.kube.times import seconds_of
from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, at

_SUCCEEDED = ("Complete", "Completed", "Succeeded")
"""Condition types of a batch/v1 Job, of a JobSet, and of the jobs of the Kubeflow training operator."""


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
