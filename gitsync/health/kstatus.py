"""
kstatus: whether a live object has reached what its spec asks for, and so the health of kinds without a rule.

The rules are those of the ``kstatus`` library of kubernetes-sigs/cli-utils, from generation, conditions and counts. An
object of an unknown kind without any sign of work in progress counts as Current here; ``assess`` is stricter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from gitsync.health.rules import (
    condition_of,
    conditions_of,
    degraded,
    healthy,
    items,
    number,
    progressing,
    spec_of,
    status_of,
    suspended,
    text,
    unknown,
)
from gitsync.kube.kinds import CRD, PERSISTENT_VOLUME_CLAIM, POD, SECRET, SERVICE
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at, group_of, metadata_of
from gitsync.objects.ref import GroupKind

SCHEDULE_WINDOW = timedelta(seconds=15)
"""How long a pod may wait for a node before it counts as unschedulable."""


class Status(Enum):
    """The status of one object."""

    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    CURRENT = "Current"
    TERMINATING = "Terminating"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Result:
    """A status with its reason and message; ``reason`` is empty for objects that need no condition."""

    status: Status
    message: str = ""
    reason: str = ""


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


def _progress(reason: str, message: str) -> Result:
    return Result(Status.IN_PROGRESS, message, reason)


def _current(message: str) -> Result:
    return Result(Status.CURRENT, message)


def _generic(live: Manifest) -> Result | None:
    """Return the result of generation, deletion and the standard conditions; None when they are inconclusive."""
    metadata = metadata_of(live)
    status = status_of(live)
    if metadata.get("deletionTimestamp"):
        return Result(Status.TERMINATING, "Resource scheduled for deletion")
    generation = metadata.get("generation")
    observed = status.get("observedGeneration")
    # != and not <: after a restore from a backup the observed generation may be the higher one.
    if isinstance(generation, int) and isinstance(observed, int) and observed != generation:
        return _progress(
            "LatestGenerationNotObserved",
            f"{live.get('kind')} generation is {generation}, but latest observed generation is {observed}",
        )
    for condition in conditions_of(live):
        if condition.get("status") == "True" and condition.get("type") in ("Reconciling", "Stalled"):
            status_word = Status.IN_PROGRESS if condition["type"] == "Reconciling" else Status.FAILED
            return Result(status_word, text(condition, "message"), text(condition, "reason"))
    return None


def _ready(live: Manifest) -> Result:
    """Judge an object of an unknown kind by its Ready condition."""
    ready = condition_of(conditions_of(live), "Ready")
    # No Ready condition at all is Current for kstatus: many kinds never set one.
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
    # With OnDelete the controller replaces nothing by itself, so its counts never converge.
    if text(live, "spec", "updateStrategy", "type") == "OnDelete":
        return _current("StatefulSet is using the ondelete update strategy")
    wants = number(live, "spec", "replicas", default=1)
    status = status_of(live)
    has = number(status, "replicas")
    updated = number(status, "updatedReplicas")
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
    # currentReplicas counts Pods of currentRevision, which is the old one until a rolling update has ended.
    shortage = _first_shortage(((number(status, "currentReplicas"), wants, "LessCurrent", "current"),))
    if shortage:
        return shortage
    if text(status, "currentRevision") != text(status, "updateRevision"):
        return _progress("RevisionMismatch", "Waiting for updated revision to match current")
    return _current(f"All replicas scheduled as expected. Replicas: {has}")


_NO_DEADLINE = 2**31 - 1


def _deployment(live: Manifest) -> Result:
    conditions = conditions_of(live)
    progressing = condition_of(conditions, "Progressing") or {}
    # The controller keeps this reason until a later rollout makes progress; the counts do not matter then.
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Result(Status.FAILED, "Progress deadline exceeded", "ProgressDeadlineExceeded")
    wants = number(live, "spec", "replicas", default=1)
    status = status_of(live)
    has = number(status, "replicas")
    updated = number(status, "updatedReplicas")
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
    # Ready Pods count as available only after minReadySeconds.
    if (condition_of(conditions, "Available") or {}).get("status") != "True":
        return _progress("DeploymentNotAvailable", "Deployment not Available")
    return _current(f"Deployment is available. Replicas: {has}")


def _replica_set(live: Manifest) -> Result:
    if (condition_of(conditions_of(live), "ReplicaFailure") or {}).get("status") == "True":
        return _progress("ReplicaFailure", "Replica Failure condition. Check Pods")
    wants = number(live, "spec", "replicas", default=1)
    status = status_of(live)
    has = number(status, "replicas")
    checks = (
        (number(status, "fullyLabeledReplicas"), wants, "LessLabelled", "Labelled"),
        (number(status, "availableReplicas"), wants, "LessAvailable", "Available"),
        (number(status, "readyReplicas"), wants, "LessReady", "Ready"),
    )
    return _first_shortage(checks) or _extra_pods(has, wants) or _current(f"ReplicaSet is available. Replicas: {has}")


def _daemon_set(live: Manifest) -> Result:
    status = status_of(live)
    # The three absences below mean that the DaemonSet controller has not written its first status.
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
    phase = text(live, "status", "phase")
    conditions = conditions_of(live)
    if phase == "Succeeded":
        return _current("Pod has completed successfully")
    if phase == "Failed":
        # kstatus asks whether a controller still works on the object; a failed Pod has ended.
        return _current("Pod has completed, but not successfully")
    if phase == "Running":
        if (condition_of(conditions, "Ready") or {}).get("status") == "True":
            return _current("Pod is Ready")
        crashing = [
            text(container, "name")
            for container in items(live, "status", "containerStatuses")
            if _crash_loops(container)
        ]
        if crashing:
            message = f"Containers in CrashLoop state: {','.join(crashing)}"
            return Result(Status.FAILED, message, "ContainerCrashLooping")
        return _progress("PodRunningNotReady", "Pod is running but is not Ready")
    if phase == "Pending":
        scheduled = condition_of(conditions, "PodScheduled") or {}
        if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            # The scheduler reports Unschedulable before it has tried all nodes or an autoscaler has added one.
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
    # Without a clock the caller wants no grace: it has waited already.
    if now is None or not created:
        return False
    return now - SCHEDULE_WINDOW < datetime.fromisoformat(created.replace("Z", "+00:00"))


def _disruption_budget(live: Manifest) -> Result:
    return _current("AllowedDisruptions has been computed.")


def _job(live: Manifest) -> Result:
    status = status_of(live)
    wants = number(live, "spec", "completions", default=number(live, "spec", "parallelism", default=1))
    succeeded = number(status, "succeeded")
    failed = number(status, "failed")
    for condition in conditions_of(live):
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return _current(f"Job Completed. succeeded: {succeeded}/{wants}")
        if condition.get("type") == "Failed":
            return Result(Status.FAILED, f"Job Failed. failed: {failed}/{wants}", "JobFailed")
        if condition.get("type") == "Suspended":
            return _current("Job is suspended")
    # The Job controller sets startTime when it first acts on the Job, also before any Pod runs.
    if not text(status, "startTime"):
        return _progress("JobNotStarted", "Job not started")
    # A running Job has reached what its spec asks for: it runs.
    return _current(f"Job in progress. success:{succeeded}, active: {number(status, 'active')}, failed: {failed}")


def _service(live: Manifest) -> Result:
    # kstatus waits for the cluster IP only; the address of the load balancer is a matter of assess.
    if text(live, "spec", "type") == "LoadBalancer" and not text(live, "spec", "clusterIP"):
        return _progress("NoIPAssigned", "ClusterIP not set. Service type: LoadBalancer")
    return _current("Service is ready")


def _crd(live: Manifest) -> Result:
    for condition in conditions_of(live):
        reason = text(condition, "reason")
        # Order matters: NamesAccepted False is final until a conflicting CRD goes, Established only says that it is
        # not served.
        refused = condition.get("status") == "False"
        if condition.get("type") == "NamesAccepted" and refused:
            return Result(Status.FAILED, text(condition, "message"), reason)
        if condition.get("type") == "Established":
            if refused and reason != "Installing":
                return Result(Status.FAILED, text(condition, "message"), reason)
            if condition.get("status") == "True":
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


_GOOD_PHASES = frozenset({"active", "available", "bound", "healthy", "ready", "running", "succeeded", "completed"})
_BAD_PHASES = frozenset({"degraded", "invalid", "lost", "unhealthy"})
_FAILURES = ("error", "errored", "failed")
"""Prefixes and suffixes of phases that mean a failure: ``FailedValidation``, ``PartiallyFailed``."""


def assess_generic(live: Manifest) -> HealthStatus:
    """
    Judge an object by its own status; Unknown, not Healthy, when it reports nothing.

    Generation, Stalled, Reconciling and Ready first, then a spec that is suspended on purpose, then counts of
    replicas, then ``status.phase``.
    """
    result = compute(live)
    if result.status is Status.FAILED:
        return degraded(result.message or result.reason)
    # After Stalled, before Reconciling: what is suspended does not progress, but may have failed.
    if spec_of(live).get("suspend") is True:
        return suspended(f"{live.get('kind')} is suspended")
    if result.status is not Status.CURRENT:
        return progressing(result.message or result.reason)
    conditions = conditions_of(live)
    # In the order in which operators mean them as their summary; Available may be True while Ready is False.
    for kind in ("Ready", "Available", "Healthy"):
        sign = condition_of(conditions, kind)
        if sign is not None:
            detail = text(sign, "message") or text(sign, "reason")
            return healthy(detail) if sign.get("status") == "True" else progressing(detail)
    return _by_replicas(live) or _by_phase(live)


def _by_replicas(live: Manifest) -> HealthStatus | None:
    wanted = status_of(live).get("replicas")
    ready = status_of(live).get("readyReplicas")
    if not isinstance(wanted, int) or not isinstance(ready, int):
        return None
    detail = f"{ready} of {wanted} replicas are ready"
    # More than wanted is the moment after a scale down.
    return healthy(detail) if ready >= wanted else progressing(detail)


def _by_phase(live: Manifest) -> HealthStatus:
    word = text(live, "status", "phase")
    if word.lower() in _GOOD_PHASES:
        return healthy(word)
    # An unknown phase is work in progress: a new version of an operator adds phases, and must not cause a rollback.
    if word.lower() in _BAD_PHASES or word.lower().startswith(_FAILURES) or word.lower().endswith(_FAILURES):
        return degraded(text(live, "status", "message") or word)
    return progressing(word) if word else unknown("its status reports no condition, count or phase")
