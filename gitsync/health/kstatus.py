"""
kstatus: whether a live object has reached what its spec asks for, from generation, conditions and counts.

The rules are those of the ``kstatus`` library of kubernetes-sigs/cli-utils. An object of an unknown kind without any
sign of work in progress counts as Current here; ``assess`` is stricter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from gitsync.health.fields import condition, conditions, items, number, status_of, text
from gitsync.kube.kinds import CRD, PERSISTENT_VOLUME_CLAIM, POD, SECRET, SERVICE
from gitsync.objects.manifest import Manifest, at, group_of, metadata_of
from gitsync.objects.ref import GroupKind

SCHEDULE_WINDOW = timedelta(seconds=15)
"""How long a pod may wait for a node before it counts as unschedulable."""


class Status(Enum):
    """The status of one object or of a set."""

    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    CURRENT = "Current"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """A status with its reason and message; ``reason`` is empty for objects that need no condition."""

    status: Status
    message: str = ""
    reason: str = ""

    @property
    def condition(self) -> dict[str, str] | None:
        """The equivalent standard condition, None where there is none."""
        kind = {Status.IN_PROGRESS: "Reconciling", Status.FAILED: "Stalled"}.get(self.status)
        if kind is None:
            return None
        return {"type": kind, "status": "True", "reason": self.reason, "message": self.message}


def compute(live: Manifest, now: datetime | None = None) -> Result:
    """
    Return the status of a live object.

    ``now`` matters for pods that wait for a node; without it they have waited long enough.
    """
    generic = _generic(live)
    if generic is not None:
        return generic
    of = GroupKind(group_of(str(live.get("apiVersion") or "")), str(live.get("kind") or ""))
    if of == POD:
        return _pod(live, now)
    rule = _RULES.get(of)
    return rule(live) if rule else _ready(live)


def augment(live: Manifest, now: datetime) -> Manifest:
    """Return the object with the computed condition merged into its conditions by type."""
    computed = compute(live, now).condition
    if computed is None:
        return live
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = conditions(live)
    before = condition(found, computed["type"])
    since = before.get("lastTransitionTime", stamp) if before and before.get("status") == "True" else stamp
    merged = {**(before or {}), **computed, "lastTransitionTime": since, "lastUpdateTime": stamp}
    kept = [merged if each is before else each for each in found]
    return {**live, "status": {**status_of(live), "conditions": kept if before else [*kept, merged]}}


def aggregate(statuses: Iterable[Status], desired: Status) -> Status:
    """Return one status for a set of which all should reach ``desired``."""
    found = set(statuses)
    for status in (Status.FAILED, Status.UNKNOWN):
        if status in found:
            return status
    return desired if found <= {desired} else Status.IN_PROGRESS


def owner_status(own: Status | None, pods: Iterable[Status]) -> Status:
    """Return the status of a pod owner: one failed pod makes an unfinished owner failed; None could not be computed."""
    if own is None:
        return Status.UNKNOWN
    return Status.FAILED if own is Status.IN_PROGRESS and Status.FAILED in set(pods) else own


def _progress(reason: str, message: str) -> Result:
    return Result(Status.IN_PROGRESS, message, reason)


def _current(message: str) -> Result:
    return Result(Status.CURRENT, message)


def _generic(live: Manifest) -> Result | None:
    """Return the result of generation, deletion and the standard conditions; None when they are inconclusive."""
    metadata, status = metadata_of(live), status_of(live)
    if metadata.get("deletionTimestamp"):
        return Result(Status.TERMINATING, "Resource scheduled for deletion")
    generation, observed = metadata.get("generation"), status.get("observedGeneration")
    if isinstance(generation, int) and isinstance(observed, int) and observed != generation:
        return _progress(
            "LatestGenerationNotObserved",
            f"{live.get('kind')} generation is {generation}, but latest observed generation is {observed}",
        )
    for each in conditions(live):
        if each.get("status") == "True" and each.get("type") in ("Reconciling", "Stalled"):
            status_word = Status.IN_PROGRESS if each["type"] == "Reconciling" else Status.FAILED
            return Result(status_word, text(each, "message"), text(each, "reason"))
    return None


def _ready(live: Manifest) -> Result:
    """Judge an object of an unknown kind by its Ready condition."""
    ready = condition(conditions(live), "Ready")
    if ready is not None and ready.get("status") in ("False", "Unknown"):
        return _progress(text(ready, "reason"), text(ready, "message"))
    return _current("Resource is current" if ready is None else "Resource is Ready")


def _always_ready(live: Manifest) -> Result:
    return _current("Resource is always ready")


def _first_shortage(checks: Iterable[tuple[int, int, str, str]]) -> Result | None:
    """Return the first check (has, wants, reason, word) whose count is too low."""
    for has, wants, reason, word in checks:
        if has < wants:
            return _progress(reason, f"{word}: {has}/{wants}")
    return None


def _extra_pods(has: int, wants: int) -> Result | None:
    return _progress("ExtraPods", f"Pending termination: {has - wants}") if has > wants else None


def _stateful_set(live: Manifest) -> Result:
    if text(live, "spec", "updateStrategy", "type") == "OnDelete":
        return _current("StatefulSet is using the ondelete update strategy")
    wants, status = number(live, "spec", "replicas", default=1), status_of(live)
    has, updated = number(status, "replicas"), number(status, "updatedReplicas")
    shortage = _first_shortage(
        ((has, wants, "LessReplicas", "Replicas"), (number(status, "readyReplicas"), wants, "LessReady", "Ready"))
    ) or _extra_pods(has, wants)
    if shortage:
        return shortage
    partition = at(live, "spec", "updateStrategy", "rollingUpdate", "partition")
    if isinstance(partition, int):
        if updated < wants - partition:
            return _progress("PartitionRollout", f"updated: {updated}/{wants - partition}")
        return _current(f"Partition rollout complete. updated: {updated}")
    shortage = _first_shortage(((number(status, "currentReplicas"), wants, "LessCurrent", "current"),))
    if shortage:
        return shortage
    if text(status, "currentRevision") != text(status, "updateRevision"):
        return _progress("RevisionMismatch", "Waiting for updated revision to match current")
    return _current(f"All replicas scheduled as expected. Replicas: {has}")


_NO_DEADLINE = 2**31 - 1


def _deployment(live: Manifest) -> Result:
    found = conditions(live)
    progressing = condition(found, "Progressing") or {}
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Result(Status.FAILED, "Progress deadline exceeded", "ProgressDeadlineExceeded")
    wants, status = number(live, "spec", "replicas", default=1), status_of(live)
    has, updated = number(status, "replicas"), number(status, "updatedReplicas")
    shortage = (
        _first_shortage(((has, wants, "LessReplicas", "Replicas"), (updated, wants, "LessUpdated", "Updated")))
        or _extra_pods(has, wants)
        or _first_shortage(
            (
                (number(status, "availableReplicas"), updated, "LessAvailable", "Available"),
                (number(status, "readyReplicas"), wants, "LessReady", "Ready"),
            )
        )
    )
    if shortage:
        return shortage
    # Without a deadline the controller never sets the condition Progressing.
    watched = number(live, "spec", "progressDeadlineSeconds", default=_NO_DEADLINE) != _NO_DEADLINE
    rolled_out = progressing.get("status") == "True" and progressing.get("reason") == "NewReplicaSetAvailable"
    if watched and not rolled_out:
        return _progress("ReplicaSetNotAvailable", "ReplicaSet not Available")
    if (condition(found, "Available") or {}).get("status") != "True":
        return _progress("DeploymentNotAvailable", "Deployment not Available")
    return _current(f"Deployment is available. Replicas: {has}")


def _replica_set(live: Manifest) -> Result:
    if (condition(conditions(live), "ReplicaFailure") or {}).get("status") == "True":
        return _progress("ReplicaFailure", "Replica Failure condition. Check Pods")
    wants, status = number(live, "spec", "replicas", default=1), status_of(live)
    has = number(status, "replicas")
    checks = (
        (number(status, "fullyLabeledReplicas"), wants, "LessLabelled", "Labelled"),
        (number(status, "availableReplicas"), wants, "LessAvailable", "Available"),
        (number(status, "readyReplicas"), wants, "LessReady", "Ready"),
    )
    return _first_shortage(checks) or _extra_pods(has, wants) or _current(f"ReplicaSet is available. Replicas: {has}")


def _daemon_set(live: Manifest) -> Result:
    status = status_of(live)
    if "generation" not in metadata_of(live):
        return _progress("NoGeneration", "DaemonSet metadata.generation not found")
    if "observedGeneration" not in status:
        return _progress("NoObservedGeneration", "DaemonSet status.observedGeneration not found")
    if "desiredNumberScheduled" not in status:
        return _progress("NoDesiredNumber", "Missing .status.desiredNumberScheduled")
    wants = number(status, "desiredNumberScheduled")
    checks = (
        (number(status, "currentNumberScheduled"), wants, "LessCurrent", "Current"),
        (number(status, "updatedNumberScheduled"), wants, "LessUpdated", "Updated"),
        (number(status, "numberAvailable"), wants, "LessAvailable", "Available"),
        (number(status, "numberReady"), wants, "LessReady", "Ready"),
    )
    return _first_shortage(checks) or _current(f"All replicas scheduled as expected. Replicas: {wants}")


def _claim(live: Manifest) -> Result:
    phase = text(live, "status", "phase", default="unknown")
    return _current("PVC is Bound") if phase == "Bound" else _progress("NotBound", f"PVC is not Bound. phase: {phase}")


def _pod(live: Manifest, now: datetime | None) -> Result:
    phase, found = text(live, "status", "phase"), conditions(live)
    if phase == "Succeeded":
        return _current("Pod has completed successfully")
    if phase == "Failed":
        return _current("Pod has completed, but not successfully")
    if phase == "Running":
        if (condition(found, "Ready") or {}).get("status") == "True":
            return _current("Pod is Ready")
        crashing = [text(each, "name") for each in items(live, "status", "containerStatuses") if _crash_loops(each)]
        if crashing:
            message = f"Containers in CrashLoop state: {','.join(crashing)}"
            return Result(Status.FAILED, message, "ContainerCrashLooping")
        return _progress("PodRunningNotReady", "Pod is running but is not Ready")
    if phase == "Pending":
        scheduled = condition(found, "PodScheduled") or {}
        if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            if _is_young(live, now):
                return _progress("PodNotScheduled", "Pod has not been scheduled")
            return Result(Status.FAILED, "Pod could not be scheduled", "PodUnschedulable")
        return _progress("PodPending", "Pod is in the Pending phase")
    if not phase:
        return _progress("PodNotObserved", "Pod phase not available")
    return Result(Status.UNKNOWN, f"unknown phase {phase}")


def _crash_loops(container: dict[str, Any]) -> bool:
    return text(container, "state", "waiting", "reason") == "CrashLoopBackOff"


def _is_young(live: Manifest, now: datetime | None) -> bool:
    created = text(live, "metadata", "creationTimestamp")
    if now is None or not created:
        return False
    return now - SCHEDULE_WINDOW < datetime.fromisoformat(created.replace("Z", "+00:00"))


def _disruption_budget(live: Manifest) -> Result:
    return _current("AllowedDisruptions has been computed.")


def _job(live: Manifest) -> Result:
    status = status_of(live)
    wants = number(live, "spec", "completions", default=number(live, "spec", "parallelism", default=1))
    succeeded, failed = number(status, "succeeded"), number(status, "failed")
    for each in conditions(live):
        if each.get("status") != "True":
            continue
        if each.get("type") == "Complete":
            return _current(f"Job Completed. succeeded: {succeeded}/{wants}")
        if each.get("type") == "Failed":
            return Result(Status.FAILED, f"Job Failed. failed: {failed}/{wants}", "JobFailed")
        if each.get("type") == "Suspended":
            return _current("Job is suspended")
    if not text(status, "startTime"):
        return _progress("JobNotStarted", "Job not started")
    return _current(f"Job in progress. success:{succeeded}, active: {number(status, 'active')}, failed: {failed}")


def _service(live: Manifest) -> Result:
    if text(live, "spec", "type") == "LoadBalancer" and not text(live, "spec", "clusterIP"):
        return _progress("NoIPAssigned", "ClusterIP not set. Service type: LoadBalancer")
    return _current("Service is ready")


def _crd(live: Manifest) -> Result:
    for each in conditions(live):
        reason = text(each, "reason")
        refused = each.get("status") == "False"
        if each.get("type") == "NamesAccepted" and refused:
            return Result(Status.FAILED, text(each, "message"), reason)
        if each.get("type") == "Established":
            if refused and reason != "Installing":
                return Result(Status.FAILED, text(each, "message"), reason)
            if each.get("status") == "True":
                return _current("CRD is established")
    return _progress("Installing", "Install in progress")


_RULES: dict[GroupKind, Callable[[Manifest], Result]] = {
    SERVICE: _service,
    SECRET: _always_ready,
    GroupKind("", "ConfigMap"): _always_ready,
    PERSISTENT_VOLUME_CLAIM: _claim,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("extensions", "DaemonSet"): _daemon_set,
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("extensions", "Deployment"): _deployment,
    GroupKind("apps", "ReplicaSet"): _replica_set,
    GroupKind("extensions", "ReplicaSet"): _replica_set,
    GroupKind("policy", "PodDisruptionBudget"): _disruption_budget,
    GroupKind("batch", "CronJob"): _always_ready,
    GroupKind("batch", "Job"): _job,
    CRD: _crd,
}
