"""The status of a Deployment: its counts, and the conditions Available, Progressing and ReplicaFailure."""

from __future__ import annotations

from collections.abc import Sequence

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.object_meta import condition_of, without_empty
from gitsync.sandbox.controllers.workloads import rollout

# math.MaxInt32 turns the deadline off (HasProgressDeadline).
NO_DEADLINE = 2**31 - 1

NEW_CREATED = "NewReplicaSetCreated"
NEW_FOUND = "FoundNewReplicaSet"
NEW_AVAILABLE = "NewReplicaSetAvailable"
UPDATED = "ReplicaSetUpdated"
TIMED_OUT = "ProgressDeadlineExceeded"
PAUSED = "DeploymentPaused"
RESUMED = "DeploymentResumed"


def condition(kind: str, status: str, reason: str, message: str, now: str) -> Manifest:
    """Return a condition of a Deployment that begins now."""
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": now,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }


def with_condition(conditions: Sequence[Manifest], new: Manifest) -> list[Manifest]:
    """
    Return the conditions with ``new`` at the end, in place of the one of its type.

    One of the same status and reason stays as and where it is; one of the same status keeps its transition time.
    """
    known = next((existing for existing in conditions if existing["type"] == new["type"]), None)
    if known is not None and (known["status"], known["reason"]) == (new["status"], new["reason"]):
        return list(conditions)
    if known is not None and known["status"] == new["status"]:
        new = {**new, "lastTransitionTime": known["lastTransitionTime"]}
    return [*without(conditions, new["type"]), new]


def without(conditions: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Return the conditions but the one of a type."""
    return [existing for existing in conditions if existing["type"] != kind]


def has_deadline(deployment: Manifest) -> bool:
    """Return whether the progress of the Deployment is watched."""
    return bool(deployment["spec"].get("progressDeadlineSeconds", NO_DEADLINE) != NO_DEADLINE)


def counts(deployment: Manifest, old: Sequence[Manifest], new: Manifest | None, now: str) -> Manifest:
    """Return the status with present counts and Available; the other conditions are those of before."""
    replica_sets = [*old, new] if new else list(old)
    available = rollout.counted(replica_sets, "availableReplicas")
    status = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": rollout.counted(replica_sets, "replicas"),
        "updatedReplicas": rollout.counted([new] if new else [], "replicas"),
        "readyReplicas": rollout.counted(replica_sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, rollout.wanted(replica_sets) - available),
        "collisionCount": at(deployment, "status", "collisionCount"),
    }
    enough = available >= deployment["spec"]["replicas"] - rollout.max_unavailable(deployment)
    minimum = (
        condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
        if enough
        else condition(
            "Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now
        )
    )
    return {
        **without_empty(status),
        # Present with 0, unlike the other counts: the real type has a pointer here.
        "terminatingReplicas": rollout.counted(replica_sets, "terminatingReplicas"),
        "conditions": with_condition(at(deployment, "status", "conditions") or (), minimum),
    }


def is_complete(deployment: Manifest, status: Manifest) -> bool:
    """Return whether all pods are new and available, and no old one is left."""
    total = deployment["spec"]["replicas"]
    numbers = (status.get(name, 0) for name in ("updatedReplicas", "replicas", "availableReplicas"))
    return all(number == total for number in numbers) and (
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    )


def progress(deployment: Manifest, status: Manifest, new: Manifest | None, now: float, text: str) -> Manifest:
    """Return the status with Progressing as a rollout sees it; ``now`` and ``text`` are the same moment."""
    conditions: list[Manifest] = status["conditions"]
    if not has_deadline(deployment):
        return {**status, "conditions": without(conditions, "Progressing")}
    current = condition_of(deployment, "Progressing")
    rolled_out = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    # Pods that fail after a complete rollout are not progress to watch.
    if rolled_out and current.get("reason") == NEW_AVAILABLE:
        return status
    subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
    if is_complete(deployment, status):
        done = condition("Progressing", "True", NEW_AVAILABLE, f"{subject} has successfully progressed.", text)
        return {**status, "conditions": with_condition(conditions, done)}
    if _has_moved(deployment.get("status") or {}, status):
        moving = condition("Progressing", "True", UPDATED, f"{subject} is progressing.", text)
        # A condition that stays True keeps its transition time; only the update time moves.
        if current.get("status") == "True":
            moving["lastTransitionTime"] = current["lastTransitionTime"]
        return {**status, "conditions": [*without(conditions, "Progressing"), moving]}
    deadline = deadline_in(deployment, now)
    if deadline is not None and deadline <= 0:
        late = condition("Progressing", "False", TIMED_OUT, f"{subject} has timed out progressing.", text)
        return {**status, "conditions": with_condition(conditions, late)}
    return status


def _has_moved(old_status: Manifest, new_status: Manifest) -> bool:
    def old_pods(status: Manifest) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return old_pods(new_status) < old_pods(old_status) or any(
        new_status.get(name, 0) > old_status.get(name, 0) for name in grown
    )


def deadline_in(deployment: Manifest, now: float) -> float | None:
    """Return the seconds until progress is overdue, None when nothing is awaited."""
    current = condition_of(deployment, "Progressing")
    if not has_deadline(deployment) or current.get("reason") in (None, NEW_AVAILABLE, TIMED_OUT, PAUSED):
        return None
    return seconds_of(current["lastUpdateTime"]) + float(deployment["spec"]["progressDeadlineSeconds"]) - now


def failure(status: Manifest, old: Sequence[Manifest], new: Manifest | None) -> Manifest:
    """Return the status with the ReplicaFailure of the ReplicaSets, the new one first, or without one."""
    failures = [condition_of(replica_set, "ReplicaFailure") for replica_set in ([new] if new else []) + list(old)]
    failed = next((replica_set for replica_set in failures if replica_set), None)
    conditions: list[Manifest] = status["conditions"]
    if failed is None:
        return {**status, "conditions": without(conditions, "ReplicaFailure")}
    raised = condition(
        "ReplicaFailure", failed["status"], failed["reason"], failed["message"], failed["lastTransitionTime"]
    )
    return {**status, "conditions": with_condition(conditions, raised)}
