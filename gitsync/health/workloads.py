"""Health of workloads and pods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gitsync.health.rules import (
    condition_of,
    conditions_of,
    containers,
    degraded,
    healthy,
    items,
    message,
    number,
    progressing,
    spec_of,
    status_of,
    suspended,
    text,
    unknown,
)
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import HOOK
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of, uid_of

# Read as Argo CD reads it, so that manifests move over unchanged.
_IGNORE_RESTART_POLICY = "argocd.argoproj.io/ignore-restart-policy"
_HOOKS = frozenset({HOOK, "argocd.argoproj.io/hook"})


def deployment(live: Manifest) -> HealthStatus:
    """Judge a Deployment as ``kubectl rollout status`` does."""
    spec = spec_of(live)
    status = status_of(live)
    name = text(live, "metadata", "name")
    if spec.get("paused") is True:
        return suspended("Deployment is paused")
    # Counts of an older spec would make a change look complete before the controller has seen it.
    if number(live, "metadata", "generation") > number(status, "observedGeneration"):
        return progressing("Waiting for rollout to finish: observed deployment generation less than desired generation")
    rollout = condition_of(conditions_of(live), "Progressing") or {}
    updated = number(status, "updatedReplicas")
    replicas = number(status, "replicas")
    available = number(status, "availableReplicas")
    # Before the counts: these still look like a rollout in progress.
    if rollout.get("reason") == "ProgressDeadlineExceeded":
        return degraded(f'Deployment "{name}" exceeded its progress deadline')
    failure = _replica_failure(live)
    if updated < number(spec, "replicas"):
        wanted = number(spec, "replicas")
        return progressing(
            f"Waiting for rollout to finish: {updated} out of {wanted} new replicas have been updated...{failure}"
        )
    # Old Pods that are still there serve the old template; kubectl rollout status waits for them too.
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
    failure = condition_of(conditions_of(live), "ReplicaFailure") or {}
    return f" ({text(failure, 'message')})" if failure.get("status") == "True" else ""


def stateful_set(live: Manifest) -> HealthStatus:
    """Judge a StatefulSet; it has no conditions, so counts and revisions decide."""
    spec = spec_of(live)
    status = status_of(live)
    observed = number(status, "observedGeneration")
    ready = number(status, "readyReplicas")
    updated = number(status, "updatedReplicas")
    wanted = number(spec, "replicas")
    # StatefulSets have no conditions; observedGeneration is 0 before the first status.
    if observed == 0 or number(live, "metadata", "generation") > observed:
        return progressing("Waiting for statefulset spec update to be observed...")
    if ready < wanted:
        return progressing(f"Waiting for {wanted - ready} pods to be ready...")
    strategy = text(spec, "updateStrategy", "type")
    if strategy == "RollingUpdate" and isinstance(at(spec, "updateStrategy", "rollingUpdate"), dict):
        partition = at(spec, "updateStrategy", "rollingUpdate", "partition")
        # Pods below the partition keep the old revision on purpose.
        if isinstance(partition, int) and updated < wanted - partition:
            return progressing(
                f"Waiting for partitioned roll out to finish: {updated} out of {wanted - partition}"
                " new pods have been updated..."
            )
        return healthy(f"partitioned roll out complete: {updated} new pods have been updated...")
    # The user deletes the Pods; their number of the new revision says nothing.
    if strategy == "OnDelete":
        return healthy(f"statefulset has {ready} ready pods")
    revision = text(status, "updateRevision")
    current = text(status, "currentRevision")
    # The controller sets currentRevision to updateRevision once the last Pod is replaced.
    if revision != current:
        return progressing(
            f"waiting for statefulset rolling update to complete {updated} pods at revision {revision}..."
        )
    pods = number(status, "currentReplicas")
    return healthy(f"statefulset rolling update complete {pods} pods at revision {current}...")


def daemon_set(live: Manifest) -> HealthStatus:
    """Judge a DaemonSet by its counts."""
    status = status_of(live)
    name = text(live, "metadata", "name")
    updated = number(status, "updatedNumberScheduled")
    wanted = number(status, "desiredNumberScheduled")
    available = number(status, "numberAvailable")
    if number(live, "metadata", "generation") > number(status, "observedGeneration"):
        return progressing("Waiting for rollout to finish: observed daemon set generation less than desired generation")
    if text(live, "spec", "updateStrategy", "type") == "OnDelete":
        return healthy(f"daemon set {updated} out of {wanted} new pods have been updated")
    # The words are those of kubectl rollout status, for people who search for them.
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
    failure = condition_of(conditions_of(live), "ReplicaFailure") or {}
    if failure.get("status") == "True":
        return degraded(text(failure, "message"))
    available = number(status, "availableReplicas")
    wanted = number(live, "spec", "replicas")
    if available < wanted:
        return progressing(f"Waiting for rollout to finish: {available} out of {wanted} new replicas are available...")
    return healthy()


def pod(live: Manifest) -> HealthStatus:
    """
    Judge a pod by its phase and its containers.

    A pod that ends by itself (a hook's) does not fail because of a waiting container: its image may still be pulled.
    """
    status = status_of(live)
    detail = text(status, "message")
    phase = text(status, "phase")
    lasts = _lasts(live)
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
        # The kubelet sets status.message only for evictions and the like; a plain exit is in its container.
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
    # A hook with the annotation would never complete, and the sync with it.
    return annotations.get(_IGNORE_RESTART_POLICY) == "true" and _HOOKS.isdisjoint(annotations)


def _is_trouble(reason: str) -> bool:
    # ErrImagePull, CreateContainerConfigError, CrashLoopBackOff: the kubelet's reasons end or begin alike.
    return reason.startswith("Err") or reason.endswith(("Error", "BackOff"))


def _running(live: Manifest, detail: str) -> HealthStatus:
    if (condition_of(conditions_of(live), "Ready") or {}).get("status") == "True":
        return healthy(detail)
    # A container that runs again after an end, in a Pod that is not ready, fails its work repeatedly.
    if any(at(container, "lastState", "terminated") for container in items(live, "status", "containerStatuses")):
        return degraded(detail)
    return progressing(detail)


def _failure(container: dict[str, Any]) -> str:
    """Return why a container ended, empty when it did not fail."""
    ended = at(container, "state", "terminated", default={}) or {}
    if text(ended, "message"):
        return text(ended, "message")
    # Its exit code is 137 like that of any SIGKILL; the reason tells memory from other kills.
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
    # A surplus Pod that crashes does not matter to a workload that has what it asked for.
    if owner.health not in (Health.PROGRESSING, Health.DEGRADED):
        return owner
    troubles = sorted({trouble for owned in owned_pods(live, related) if (trouble := pod_trouble(owned))})
    if not troubles:
        return owner
    more = f" and {len(troubles) - 1} more" if len(troubles) > 1 else ""
    return degraded(f"{troubles[0]}{more}")


def owned_pods(live: Manifest, related: Sequence[Manifest]) -> list[Manifest]:
    """Return the pods among related objects that belong to an object, directly or through objects in between."""
    uids = {uid_of(live)} - {""}
    others = list(related)
    pods: list[Manifest] = []
    # One level of owners at a time: a Deployment owns ReplicaSets, and these own the Pods.
    while True:
        dependents = [manifest for manifest in others if _owner_uids(manifest) & uids]
        if not dependents:
            return pods
        others = [manifest for manifest in others if manifest not in dependents]
        uids = {uid_of(manifest) for manifest in dependents} - {""}
        pods += [manifest for manifest in dependents if manifest.get("kind") == "Pod"]


def _owner_uids(manifest: Manifest) -> set[str]:
    # An object that was never created has no uid, and must not own all that have none either.
    return {text(owner, "uid") for owner in items(metadata_of(manifest), "ownerReferences")} - {""}


def pod_trouble(live: Manifest) -> str:
    """Return why a pod cannot do its work, as ``pod NAME: REASON (detail)``; empty when it reports no problem."""
    if metadata_of(live).get("deletionTimestamp"):
        return ""
    name = text(live, "metadata", "name")
    for container in containers(live):
        reason = text(container, "state", "waiting", "reason")
        # InvalidImageName is the only final reason that neither begins with Err nor ends with Error or BackOff.
        if reason and (_is_trouble(reason) or reason == "InvalidImageName"):
            detail = _waiting_detail(container, reason)
            return f"pod {name}: {reason}" + (f" ({detail})" if detail else "")
    scheduled = condition_of(conditions_of(live), "PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return f"pod {name}: cannot be scheduled ({text(scheduled, 'message')})"
    if text(live, "status", "phase") == "Failed":
        why = text(live, "status", "message") or next(filter(None, map(_failure, containers(live))), "failed")
        return f"pod {name}: {why}"
    return ""


def _waiting_detail(container: dict[str, Any], reason: str) -> str:
    # The kubelet's message hides the image in a long answer of the registry.
    if "Image" in reason:
        return f"image {text(container, 'image')}"
    ended = at(container, "lastState", "terminated", default={}) or {}
    if ended.get("reason") == "OOMKilled":
        return "OOMKilled"
    if ended:
        return f"exit code {number(ended, 'exitCode')}"
    return text(container, "state", "waiting", "message")


def job(live: Manifest) -> HealthStatus:
    """Judge a Job by its conditions."""
    by_type = {text(condition, "type"): condition for condition in conditions_of(live)}
    # Failed first: since Kubernetes 1.31 FailureTarget and SuccessCriteriaMet come before the end, and are not it.
    if "Failed" in by_type:
        return degraded(message(by_type["Failed"]))
    if "Suspended" in by_type and by_type["Suspended"].get("status") == "True":
        return suspended(message(by_type["Suspended"]))
    for kind in ("Complete", "Suspended"):
        if kind in by_type:
            return healthy(message(by_type[kind]))
    return progressing()


def cron_job(live: Manifest) -> HealthStatus:
    """Judge a CronJob by its last run; missed runs are not visible. A suspended one is healthy."""
    if spec_of(live).get("suspend") is True:
        return healthy("CronJob is Suspended")
    status = live.get("status")
    if status is None:
        return progressing("Waiting for CronJob")
    scheduled = text(status, "lastScheduleTime")
    succeeded = text(status, "lastSuccessfulTime")
    # A schedule may be a month away: that is not a problem to wait for.
    if not scheduled:
        return healthy("CronJob has not been scheduled yet")
    if not succeeded:
        return healthy("The CronJob never completed successfully. It may not be healthy")
    # The last execution is still in progress, so lastSuccessfulTime is older than lastScheduleTime by design.
    if status_of(live).get("active"):
        return healthy("The job is running. Its last execution may not have been successful")
    # RFC 3339 times in UTC compare as texts.
    if succeeded < scheduled:
        return degraded("CronJob has not completed its last execution successfully")
    return healthy("CronJob has completed its last execution successfully")


def workflow(live: Manifest) -> HealthStatus:
    """Judge an Argo Workflow by its phase."""
    phase = text(live, "status", "phase")
    detail = text(live, "status", "message")
    if phase in ("", "Pending", "Running"):
        return progressing(detail)
    if phase == "Succeeded":
        return healthy(detail)
    return degraded(detail) if phase in ("Failed", "Error") else unknown(detail)
