"""The arithmetic of a rolling update: how many pods old and new ReplicaSets may have. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of

REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HASH_LABEL = "pod-template-hash"


def resolve(value: int | str, total: int, *, round_up: bool) -> int:
    """Return an int-or-percentage of ``total`` as a number."""
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * total / 100
    return math.ceil(share) if round_up else math.floor(share)


def is_rolling(deployment: Manifest) -> bool:
    """Return whether the strategy is RollingUpdate."""
    return bool(at(deployment, "spec", "strategy", "type") == "RollingUpdate")


def fences(deployment: Manifest) -> tuple[int, int]:
    """Return maxSurge and maxUnavailable as numbers; one of them is at least 1, or no rollout could move."""
    if not is_rolling(deployment):
        return 0, 0
    total = deployment["spec"]["replicas"]
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    # Surge up and outage down (ResolveFenceposts): availability wins over speed.
    surge = resolve(rolling.get("maxSurge", "25%"), total, round_up=True)
    unavailable = resolve(rolling.get("maxUnavailable", "25%"), total, round_up=False)
    return surge, (1 if surge == 0 and unavailable == 0 else unavailable)


def max_surge(deployment: Manifest) -> int:
    """Return how many pods may exist above ``spec.replicas``."""
    return fences(deployment)[0]


def max_unavailable(deployment: Manifest) -> int:
    """Return how many of the wanted pods may be missing."""
    total: int = deployment["spec"]["replicas"]
    return min(fences(deployment)[1], total)


def wanted(replica_sets: Sequence[Manifest]) -> int:
    """Return the sum of ``spec.replicas``."""
    return sum(replica_set["spec"]["replicas"] for replica_set in replica_sets)


def counted(replica_sets: Sequence[Manifest], member: str) -> int:
    """Return the sum of one number in the statuses."""
    return sum(at(replica_set, "status", member) or 0 for replica_set in replica_sets)


def new_replicas(deployment: Manifest, replica_sets: Sequence[Manifest], current: int) -> int:
    """Return how many replicas the new ReplicaSet, which has ``current``, should have next."""
    total: int = deployment["spec"]["replicas"]
    if not is_rolling(deployment):
        return total
    room = total + max_surge(deployment) - wanted(replica_sets)
    return current if room <= 0 else current + min(room, total - current)


def old_replicas(deployment: Manifest, old: Sequence[Manifest], new: Manifest) -> dict[str, int]:
    """
    Return the ReplicaSets of ``old`` to scale down, by name, with their new number.

    Pods that are not ready are removed first; at least the minimum of pods stays available.
    """
    minimum = deployment["spec"]["replicas"] - max_unavailable(deployment)
    # New pods that are not available yet must not be replaced by fewer old ones.
    new_unavailable = new["spec"]["replicas"] - counted([new], "availableReplicas")
    budget = wanted([*old, new]) - minimum - new_unavailable
    if budget <= 0:
        return {}
    numbers = {replica_set["metadata"]["name"]: replica_set["spec"]["replicas"] for replica_set in old}
    # cleanupUnhealthyReplicas: a pod that is not available costs nothing when it goes.
    for replica_set in old:
        name = replica_set["metadata"]["name"]
        unhealthy = replica_set["spec"]["replicas"] - counted([replica_set], "availableReplicas")
        step = min(budget, max(0, unhealthy))
        numbers[name] -= step
        budget -= step
    # scaleDownOldReplicaSetsForRollingUpdate.
    spare = counted([*old, new], "availableReplicas") - minimum
    for name, number in numbers.items():
        step = min(max(0, spare), number)
        numbers[name] -= step
        spare -= step
    return {
        replica_set["metadata"]["name"]: numbers[replica_set["metadata"]["name"]]
        for replica_set in old
        if numbers[replica_set["metadata"]["name"]] != replica_set["spec"]["replicas"]
    }


def proportions(deployment: Manifest, active: Sequence[Manifest]) -> dict[str, int]:
    """
    Return how a change of ``spec.replicas`` in the middle of a rollout is shared between the active ReplicaSets.

    Each gets its share of the change; the largest takes what rounding leaves.
    """
    total: int = deployment["spec"]["replicas"]
    change = (total + max_surge(deployment) if total else 0) - wanted(active)
    largest_first = sorted(active, key=lambda replica_set: replica_set["spec"]["replicas"], reverse=True)
    numbers = {replica_set["metadata"]["name"]: replica_set["spec"]["replicas"] for replica_set in largest_first}
    remainder = change
    for replica_set in largest_first:
        step = _share(deployment, replica_set, change, remainder)
        numbers[replica_set["metadata"]["name"]] += step
        remainder -= step
    if largest_first:
        first = largest_first[0]["metadata"]["name"]
        # The largest set bears the rounding, since one pod matters least there.
        numbers[first] = max(0, numbers[first] + remainder)
    return numbers


def _share(deployment: Manifest, replica_set: Manifest, change: int, remainder: int) -> int:
    size: int = replica_set["spec"]["replicas"]
    if not size or not remainder:
        return 0
    old_maximum: int = int(annotations_of(replica_set).get(MAXIMUM) or 0) or deployment["status"].get("replicas") or 1
    new_maximum: int = deployment["spec"]["replicas"] + max_surge(deployment)
    # By the maximum noted at the last scaling, which the sizes now belong to (getReplicaSetFraction).
    fraction = round(size * new_maximum / old_maximum) - size
    return min(fraction, remainder) if change > 0 else max(fraction, remainder)


def revision_of(replica_set: Manifest) -> int:
    """Return the revision number in the annotations; 0 where there is none."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def template_of(replica_set: Manifest) -> Manifest:
    """Return the pod template without the hash label that the ReplicaSet added."""
    template: Manifest = replica_set["spec"]["template"]
    labels = {key: value for key, value in labels_of(template).items() if key != HASH_LABEL}
    metadata = {**(template.get("metadata") or {}), "labels": labels}
    return {**template, "metadata": {key: value for key, value in metadata.items() if value}}


def same_template(replica_set: Manifest, deployment: Manifest) -> bool:
    """Return whether the ReplicaSet has the Deployment's present template."""
    return template_of(replica_set) == template_of(deployment)
