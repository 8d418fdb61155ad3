"""Pod helpers of controllers: create from a template, active, ready, available, order of deletion."""

from __future__ import annotations

import hashlib

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, annotations_of, at, labels_of
from gitsync.sandbox.controllers.object_meta import condition_of, is_deleting, owner_reference

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels and no 0, 1, 3: names spell no words
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def from_template(template: Manifest, owner: Manifest, **metadata: object) -> Manifest:
    """Return a pod that a controller makes from a template; ``metadata`` replaces members."""
    meta = template.get("metadata") or {}
    # Of the metadata of a template only these are for pods (GetPodFromTemplate).
    kept: Manifest = {key: dict(meta[key]) for key in ("labels", "annotations") if meta.get(key)}
    if meta.get("finalizers"):
        kept["finalizers"] = list(meta["finalizers"])
    name = owner["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": owner["metadata"]["namespace"],
            **kept,
            "ownerReferences": [owner_reference(owner)],
            **metadata,
        },
        "spec": template["spec"],
    }


def hash_name(digest: bytes) -> str:
    """Return a hash as ten characters that are valid in names."""
    # 64 bits are enough for ten characters of 27.
    number = int.from_bytes(digest[:8], "big")
    return "".join(_ALPHABET[number // len(_ALPHABET) ** place % len(_ALPHABET)] for place in range(10))


def template_hash(text: bytes) -> str:
    """Return the hash of a template's canonical text."""
    return hash_name(hashlib.sha256(text).digest())


def is_finished(pod: Manifest) -> bool:
    """Return whether all containers ended and will not start again."""
    return at(pod, "status", "phase") in ("Succeeded", "Failed")


def is_active(pod: Manifest) -> bool:
    """Return whether the pod counts as a replica."""
    return not is_finished(pod) and not is_deleting(pod)


def is_terminating(pod: Manifest) -> bool:
    """Return whether the pod still runs but is being deleted."""
    return is_deleting(pod) and not is_finished(pod)


def is_ready(pod: Manifest) -> bool:
    """Return whether the pod's Ready condition holds."""
    return bool(condition_of(pod, "Ready").get("status") == "True")


def available_in(pod: Manifest, min_ready_seconds: int, now: float) -> float | None:
    """Return after how many seconds the pod is available (0: now), None while it is not ready."""
    ready = condition_of(pod, "Ready")
    if ready.get("status") != "True":
        return None
    return max(0.0, seconds_of(ready.get("lastTransitionTime")) + min_ready_seconds - now) if min_ready_seconds else 0.0


def restarts(pod: Manifest) -> int:
    """Return the restarts of the container that restarted most."""
    statuses = at(pod, "status", "containerStatuses") or ()
    return max((status.get("restartCount", 0) for status in statuses), default=0)


def deletion_rank(pod: Manifest) -> tuple[object, ...]:
    """Order pods by who goes first when there are too many: the one with the least to lose."""
    cost = annotations_of(pod).get(DELETION_COST, "0")
    phase = {"Pending": 0, "Unknown": 1}.get(at(pod, "status", "phase", default="Pending"), 2)
    return (
        # pkg/controller: ActivePodsWithRanks.Less, in its order.
        bool(at(pod, "spec", "nodeName")),
        phase,
        is_ready(pod),
        int(cost) if cost.lstrip("+-").isdecimal() else 0,
        -seconds_of(condition_of(pod, "Ready").get("lastTransitionTime")) if is_ready(pod) else 0.0,
        -restarts(pod),
        -seconds_of(pod["metadata"]["creationTimestamp"]),
        pod["metadata"]["name"],
    )


def has_labels(pod: Manifest, labels: dict[str, str]) -> bool:
    """Return whether the pod carries all these labels."""
    own = labels_of(pod)
    return all(own.get(key) == value for key, value in labels.items())
