"""Health of workloads and pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitsync.health.fields import condition, conditions, containers, items, number, spec_of, status_of, text
from gitsync.health.rules import degraded, healthy, progressing, suspended, unknown
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import HOOK
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of, uid_of

_IGNORE_RESTART_POLICY = "argocd.argoproj.io/ignore-restart-policy"
_HOOKS = frozenset({HOOK, "argocd.argoproj.io/hook"})


def deployment(live: Manifest) -> HealthStatus:
    """Judge a Deployment as ``kubectl rollout status`` does."""
    spec, status, name = spec_of(live), status_of(live), text(live, "metadata", "name")
    if spec.get("paused") is True:
        return suspended("Deployment is paused")
    if number(live, "metadata", "generation") > number(status, "observedGeneration"):
        return progressing("Waiting for rollout to finish: observed deployment generation less than desired generation")
    rollout = condition(conditions(live), "Progressing") or {}
    updated, replicas = number(status, "updatedReplicas"), number(status, "replicas")
    available = number(status, "availableReplicas")
    if rollout.get("reason") == "ProgressDeadlineExceeded":
        return degraded(f'Deployment "{name}" exceeded its progress deadline')
    failure = _replica_failure(live)
    if updated < number(spec, "replicas"):
        wanted = number(spec, "replicas")
        return progressing(
            f"Waiting for rollout to finish: {updated} out of {wanted} new replicas have been updated...{failure}"
        )
    if replicas > updated:
        return progressing(
            f"Waiting for rollout to finish: {replicas - updated} old replicas are pending termination..."
        )
    if available < updated:
        return progressing(
            f"Waiting for rollout to finish: {available} of {updated} updated replicas are available...{failure}"
        )
    return healthy()


def _replica_failure(live: Manifest) -> str:
    """Return why the pods of a Deployment could not be created, as an addition to its message."""
    failure = condition(conditions(live), "ReplicaFailure") or {}
    return f" ({text(failure, 'message')})" if failure.get("status") == "True" else ""


def stateful_set(live: Manifest) -> HealthStatus:
    """Judge a StatefulSet; it has no conditions, so counts and revisions decide."""
    spec, status = spec_of(live), status_of(live)
    observed, ready = number(status, "observedGeneration"), number(status, "readyReplicas")
    updated, wanted = number(status, "updatedReplicas"), number(spec, "replicas")
    if observed == 0 or number(live, "metadata", "generation") > observed:
        return progressing("Waiting for statefulset spec update to be observed...")
    if ready < wanted:
        return progressing(f"Waiting for {wanted - ready} pods to be ready...")
    strategy = text(spec, "updateStrategy", "type")
    if strategy == "RollingUpdate" and isinstance(at(spec, "updateStrategy", "rollingUpdate"), dict):
        partition = at(spec, "updateStrategy", "rollingUpdate", "partition")
        if isinstance(partition, int) and updated < wanted - partition:
            return progressing(
                f"Waiting for partitioned roll out to finish: {updated} out of {wanted - partition}"
                " new pods have been updated..."
            )
        return healthy(f"partitioned roll out complete: {updated} new pods have been updated...")
    if strategy == "OnDelete":
        return healthy(f"statefulset has {ready} ready pods")
    revision, current = text(status, "updateRevision"), text(status, "currentRevision")
    if revision != current:
        return progressing(
            f"waiting for statefulset rolling update to complete {updated} pods at revision {revision}..."
        )
    pods = number(status, "currentReplicas")
    return healthy(f"statefulset rolling update complete {pods} pods at revision {current}...")


def daemon_set(live: Manifest) -> HealthStatus:
    """Judge a DaemonSet by its counts."""
    status, name = status_of(live), text(live, "metadata", "name")
    updated, wanted = number(status, "updatedNumberScheduled"), number(status, "desiredNumberScheduled")
    available = number(status, "numberAvailable")
    if number(live, "metadata", "generation") > number(status, "observedGeneration"):
        return progressing("Waiting for rollout to finish: observed daemon set generation less than desired generation")
    if text(live, "spec", "updateStrategy", "type") == "OnDelete":
        return healthy(f"daemon set {updated} out of {wanted} new pods have been updated")
    waiting = f'Waiting for daemon set "{name}" rollout to finish:'
    if updated < wanted:
        return progressing(f"{waiting} {updated} out of {wanted} new pods have been updated...")
    if available < wanted:
        return progressing(f"{waiting} {available} of {wanted} updated pods are available...")
    return healthy()


def replica_set(live: Manifest) -> HealthStatus:
    """Judge a ReplicaSet by its failure condition and its counts."""
    status = status_of(live)
    if number(live, "metadata", "generation") > number(status, "observedGeneration"):
        return progressing(
            "Waiting for rollout to finish: observed replica set generation less than desired generation"
        )
    failure = condition(conditions(live), "ReplicaFailure") or {}
    if failure.get("status") == "True":
        return degraded(text(failure, "message"))
    available, wanted = number(status, "availableReplicas"), number(live, "spec", "replicas")
    if available < wanted:
        return progressing(f"Waiting for rollout to finish: {available} out of {wanted} new replicas are available...")
    return healthy()


def pod(live: Manifest) -> HealthStatus:
    """
    Judge a pod by its phase and its containers.

    A pod that ends by itself (a hook's) does not fail because of a waiting container: its image may still be pulled.
    """
    status = status_of(live)
    detail, phase, lasts = text(status, "message"), text(status, "phase"), _lasts(live)
    if lasts:
        troubles = [
            text(container, "state", "waiting", "message")
            for container in items(status, "containerStatuses")
            if _is_trouble(text(container, "state", "waiting", "reason"))
        ]
        if troubles:
            return degraded(", ".join(troubles))
    if phase == "Pending":
        return progressing(detail)
    if phase == "Succeeded":
        return healthy(detail)
    if phase == "Failed":
        return degraded(detail or next(filter(None, map(_failure, containers(live))), ""))
    if phase == "Running":
        return _running(live, detail) if lasts else progressing(detail)
    return unknown(detail)


def _lasts(live: Manifest) -> bool:
    """
    Whether a pod should run forever, by its restart policy.

    Argo CD's annotation makes it count so, except for hooks, which always end.
    """
    if text(live, "spec", "restartPolicy", default="Always") == "Always":
        return True
    annotations = annotations_of(live)
    return annotations.get(_IGNORE_RESTART_POLICY) == "true" and _HOOKS.isdisjoint(annotations)


def _is_trouble(reason: str) -> bool:
    return reason.startswith("Err") or reason.endswith(("Error", "BackOff"))


def _running(live: Manifest, detail: str) -> HealthStatus:
    if (condition(conditions(live), "Ready") or {}).get("status") == "True":
        return healthy(detail)
    if any(at(each, "lastState", "terminated") for each in items(live, "status", "containerStatuses")):
        return degraded(detail)
    return progressing(detail)


def _failure(container: dict[str, Any]) -> str:
    """Return why a container ended, empty when it did not fail."""
    ended = at(container, "state", "terminated", default={}) or {}
    if text(ended, "message"):
        return text(ended, "message")
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled"
    code = number(ended, "exitCode")
    return f'container "{text(container, "name")}" failed with exit code {code}' if code else ""


def with_pods(owner: HealthStatus, live: Manifest, related: Sequence[Manifest]) -> HealthStatus:
    """
    Return the health of a workload, explained by its failing pods.

    A pod that cannot start makes an unfinished workload Degraded, with the pod's own reason; pods of an older
    revision that are being deleted do not count.
    """
    if owner.health not in (Health.PROGRESSING, Health.DEGRADED):
        return owner
    troubles = sorted({trouble for each in owned_pods(live, related) if (trouble := pod_trouble(each))})
    if not troubles:
        return owner
    more = f" and {len(troubles) - 1} more" if len(troubles) > 1 else ""
    return degraded(f"{troubles[0]}{more}")


def owned_pods(live: Manifest, related: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods among related objects that belong to an object, directly or through objects in between."""
    uids, rest = {uid_of(live)} - {""}, list(related)
    pods: list[Manifest] = []
    while True:
        found = [each for each in rest if _owner_uids(each) & uids]
        if not found:
            return pods
        rest = [each for each in rest if each not in found]
        uids = {uid_of(each) for each in found} - {""}
        pods += [each for each in found if each.get("kind") == "Pod"]


def _owner_uids(each: Manifest) -> set[str]:
    return {text(owner, "uid") for owner in items(metadata_of(each), "ownerReferences")} - {""}


def pod_trouble(live: Manifest) -> str:
    """Return why a pod cannot do its work, as ``pod NAME: REASON (detail)``; empty when it reports no problem."""
    if metadata_of(live).get("deletionTimestamp"):
        return ""
    name = text(live, "metadata", "name")
    for container in containers(live):
        reason = text(container, "state", "waiting", "reason")
        if reason and (_is_trouble(reason) or reason == "InvalidImageName"):
            detail = _waiting_detail(container, reason)
            return f"pod {name}: {reason}" + (f" ({detail})" if detail else "")
    scheduled = condition(conditions(live), "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return f"pod {name}: cannot be scheduled ({text(scheduled, 'message')})"
    if text(live, "status", "phase") == "Failed":
        why = text(live, "status", "message") or next(filter(None, map(_failure, containers(live))), "failed")
        return f"pod {name}: {why}"
    return ""


def _waiting_detail(container: dict[str, Any], reason: str) -> str:
    if "Image" in reason:
        return f"image {text(container, 'image')}"
    ended = at(container, "lastState", "terminated", default={}) or {}
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled"
    if ended:
        return f"exit code {number(ended, 'exitCode')}"
    return text(container, "state", "waiting", "message")
