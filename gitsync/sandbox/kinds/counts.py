"""Validation of the counts in statuses: rows that name the Go function that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.validation.causes import invalid, minimum


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a status: none is negative, ``parts`` are not greater than ``replicas``, ``rising`` only grow."""

    counts: tuple[str, ...]
    parts: tuple[str, ...] = ()
    rising: tuple[str, ...] = ()

    def validate(self, new: Manifest, old: Manifest | None) -> list[StatusCause]:
        """Check the status of an object."""
        status = new.get("status") or {}
        causes = [cause for name in self.counts for cause in minimum(f"status.{name}", status.get(name))]
        for name in self.parts:
            causes += _at_most(status, name, "replicas", "cannot be greater than status.replicas")
        # Available pods are a part of the ready ones, except in statuses that have no such counts.
        if self.parts:
            causes += _at_most(status, "availableReplicas", "readyReplicas", "cannot be greater than readyReplicas")
        for name in self.rising:
            stored_count = ((old or {}).get("status") or {}).get(name)
            # The counter resolves collisions of hashes: an absent value counts as lower than a stored 0.
            if stored_count is not None and status.get(name, -1) < stored_count:
                causes.append(invalid(f"status.{name}", status.get(name, 0), "cannot be decremented"))
        return causes


def _at_most(status: Mapping[str, Any], name: str, whole: str, text: str) -> list[StatusCause]:
    count = status.get(name, 0)
    return [invalid(f"status.{name}", count, text)] if count > status.get(whole, 0) else []


_READY = ("readyReplicas", "availableReplicas")

DEPLOYMENT = Counts(
    (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        *_READY,
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ),
    parts=("updatedReplicas", *_READY),
    rising=("collisionCount",),
)
"""pkg/apis/apps/validation: ValidateDeploymentStatusUpdate."""

REPLICA_SET = Counts(
    ("replicas", "fullyLabeledReplicas", *_READY, "observedGeneration", "terminatingReplicas"),
    parts=("fullyLabeledReplicas", *_READY),
)
"""pkg/apis/apps/validation: ValidateReplicaSetStatus; ValidateReplicationControllerStatus is the same."""

STATEFUL_SET = Counts(
    ("replicas", "currentReplicas", "updatedReplicas", *_READY, "observedGeneration", "collisionCount"),
    parts=("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    rising=("collisionCount",),
)
"""pkg/apis/apps/validation: ValidateStatefulSetStatusUpdate."""

DAEMON_SET = Counts(
    (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ),
    rising=("collisionCount",),
)
"""pkg/apis/apps/validation: ValidateDaemonSetStatusUpdate."""

AUTOSCALER = Counts(("currentReplicas", "desiredReplicas"))
"""pkg/apis/autoscaling/validation: ValidateHorizontalPodAutoscalerStatusUpdate."""

JOB = Counts(("active", "succeeded", "failed", "ready", "terminating"))
"""pkg/apis/batch/validation: validateJobStatus."""

BUDGET = Counts(("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"))
"""pkg/apis/policy/validation: ValidatePodDisruptionBudgetStatusUpdate."""
