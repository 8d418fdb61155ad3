"""Health of what runs jobs on shared capacity: Ray and Kueue."""

from __future__ import annotations

from typing import Any

from gitsync.health.rules import (
    Rule,
    condition_of,
    conditions_of,
    degraded,
    healthy,
    message,
    number,
    progressing,
    reason_of,
    suspended,
    text,
)
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind


def ray_cluster(live: Manifest) -> HealthStatus:
    """
    Judge a RayCluster by its conditions, or by the state of versions before KubeRay 1.3.

    Source: ray-project/kuberay 1.7, ray-operator/apis/ray/v1/raycluster_types.go (HeadPodReady, RayClusterProvisioned,
    ReplicaFailure, RayClusterSuspending, RayClusterSuspended). Its observedGeneration does not count, nor do those of
    the other kinds: the controllers do not write a status that differs in it alone (utils/consistency.go).
    RayClusterProvisioned stays True after the first time that all Pods were ready (raycluster_controller.go); after it,
    readyWorkerReplicas and desiredWorkerReplicas report lost workers.
    """
    conditions = conditions_of(live)
    state = text(live, "status", "state")
    failed = condition_of(conditions, "ReplicaFailure") or {}
    if failed.get("status") == "True" or state == "failed":
        return degraded(reason_of(failed) or text(live, "status", "reason") or "failed")
    if _is_true(conditions, "RayClusterSuspending", "RayClusterSuspended") or state == "suspended":
        return suspended("the cluster is suspended")
    head = condition_of(conditions, "HeadPodReady")
    all_pods = condition_of(conditions, "RayClusterProvisioned")
    if head is not None and head.get("status") == "False":
        return progressing(reason_of(head))
    ready = number(live, "status", "readyWorkerReplicas")
    wanted = number(live, "status", "desiredWorkerReplicas")
    if all_pods is not None and all_pods.get("status") == "True" and ready < wanted:
        return progressing(f"{ready} of {wanted} workers are ready")
    if state == "ready" or (all_pods or {}).get("status") == "True":
        return healthy(reason_of(all_pods or {}))
    return progressing(reason_of(all_pods or {}) or "waiting for the Pods of the cluster")


def ray_job(live: Manifest) -> HealthStatus:
    """
    Judge a RayJob by its deployment status.

    Source: ray-project/kuberay 1.7, ray-operator/apis/ray/v1/rayjob_types.go (jobDeploymentStatus, jobStatus, message);
    ValidationFailed: the controller rejected its spec; Retrying: it starts a failed job again (backoffLimit); STOPPED:
    a user stopped the job.
    """
    word = text(live, "status", "jobDeploymentStatus")
    job = text(live, "status", "jobStatus")
    detail = text(live, "status", "message") or word
    if word == "Retrying":
        return progressing(detail)
    if word in ("Failed", "ValidationFailed") or job == "FAILED":
        return degraded(detail)
    if word in ("Suspended", "Suspending") or job == "STOPPED":
        return suspended(detail)
    if word == "Complete":
        return healthy(detail)
    return healthy(detail) if job == "RUNNING" else progressing(detail or "waiting for the job")


def ray_cron_job(live: Manifest) -> HealthStatus:
    """
    Judge a RayCronJob: scheduled, or suspended; its RayJobs have their own health.

    Source: ray-project/kuberay 1.7, ray-operator/apis/ray/v1/raycronjob_types.go (spec.suspend; the status has only
    lastScheduleTime).
    """
    if at(live, "spec", "suspend") is True:
        return suspended("the schedule is suspended")
    last = text(live, "status", "lastScheduleTime")
    return healthy(f"last scheduled at {last}" if last else "not scheduled yet")


_NEVER_SERVES = frozenset({"InitializingTimeout", "ValidationFailed"})
"""Reasons of Ready of a RayService that only a change of its spec ends."""


def ray_service(live: Manifest) -> HealthStatus:
    """
    Judge a RayService: stopped on purpose, given up, its applications, and whether an upgrade continues.

    Source: ray-project/kuberay 1.7, ray-operator/apis/ray/v1/rayservice_types.go (conditions Ready, UpgradeInProgress,
    Suspending and Suspended, reasons of Ready, serviceStatus, and the statuses of Ray Serve's applications in
    activeServiceStatus), controllers/ray/rayservice_controller.go.
    """
    conditions = conditions_of(live)
    ready = condition_of(conditions, "Ready")
    upgrade = condition_of(conditions, "UpgradeInProgress") or {}
    if ready is not None and ready.get("reason") in _NEVER_SERVES:
        return degraded(reason_of(ready))
    if _is_true(conditions, "Suspending", "Suspended"):
        return suspended(reason_of(ready or {}))
    failed = _failed_application(live)
    if failed:
        return degraded(failed)
    if upgrade.get("status") == "True":
        return progressing(reason_of(upgrade))
    if ready is None:
        is_running = text(live, "status", "serviceStatus") == "Running"
        return healthy("Running") if is_running else progressing("waiting for the service")
    return healthy(message(ready)) if ready.get("status") == "True" else progressing(reason_of(ready))


def _failed_application(live: Manifest) -> str:
    applications = at(live, "status", "activeServiceStatus", "applicationStatuses") or {}
    for name, application in sorted(applications.items()):
        if application.get("status") in ("DEPLOY_FAILED", "UNHEALTHY"):
            return f"{name}: {application.get('message') or application['status']}"
    return ""


def _is_true(conditions: list[dict[str, Any]], *kinds: str) -> bool:
    return any(condition.get("type") in kinds and condition.get("status") == "True" for condition in conditions)


def kueue_queue(live: Manifest) -> HealthStatus:
    """
    Judge a queue, AdmissionCheck or MultiKueueCluster by Active; a queue with a stop policy is stopped on purpose.

    Source: kubernetes-sigs/kueue 0.20, apis/kueue/v1beta2 (condition Active of the four kinds, reason Stopped).
    """
    active = condition_of(conditions_of(live), "Active")
    if active is None:
        return progressing("waiting to be active")
    if active.get("status") == "True":
        return healthy(message(active))
    return suspended(reason_of(active)) if "Stopped" in text(active, "reason") else degraded(reason_of(active))


_NEVER_ADMITTED = frozenset({"ExceedsMaxQuota", "Misconfigured", "NoMatchingFlavor"})
"""Reasons of QuotaReserved (v1beta2) that only a change of the Workload or of its queue ends."""

_NOT_DONE = frozenset({"Failed", "FailedToStart", "OutOfSync", "OwnerNotFound"})
"""Reasons of Finished without success."""


def kueue_workload(live: Manifest) -> HealthStatus:
    """
    Judge a Workload: finished, deactivated by a user or given up by Kueue, admitted, or waiting for quota or Pods.

    Source: kubernetes-sigs/kueue 0.20, apis/kueue/v1beta1 and v1beta2, workload_types.go (conditions and their reasons,
    spec.active), pkg/workload/patching/patching.go (ReasonWithCause: ``DeactivatedDueTo...``). An evicted Workload is
    Admitted until its Pods ended; PodsReady is only set where Kueue waits for Pods.
    """
    conditions = conditions_of(live)
    finished = condition_of(conditions, "Finished") or {}
    admitted = condition_of(conditions, "Admitted") or {}
    if finished.get("status") == "True":
        return degraded(reason_of(finished)) if text(finished, "reason") in _NOT_DONE else healthy(message(finished))
    evicted = condition_of(conditions, "Evicted") or {}
    quota = condition_of(conditions, "QuotaReserved") or {}
    cause = text(evicted, "reason") if evicted.get("status") == "True" else ""
    if cause.startswith("DeactivatedDueTo"):
        return degraded(reason_of(evicted))
    if cause == "Deactivated" or at(live, "spec", "active") is False or quota.get("reason") in ("OnHold", "Suspended"):
        return suspended(reason_of(evicted) or reason_of(quota))
    if admitted.get("status") == "True":
        return _admitted(admitted, evicted if cause else {}, condition_of(conditions, "PodsReady") or {})
    is_refused = quota.get("status") == "False" and quota.get("reason") in _NEVER_ADMITTED
    return degraded(reason_of(quota)) if is_refused else progressing(reason_of(quota) or "waiting for quota")


def _admitted(admitted: dict[str, Any], evicted: dict[str, Any], pods: dict[str, Any]) -> HealthStatus:
    waits = evicted or (pods if pods.get("status") == "False" else {})
    return progressing(reason_of(waits)) if waits else healthy(message(admitted))


RULES: dict[GroupKind, Rule] = {
    GroupKind("ray.io", "RayCluster"): ray_cluster,
    GroupKind("ray.io", "RayCronJob"): ray_cron_job,
    GroupKind("ray.io", "RayJob"): ray_job,
    GroupKind("ray.io", "RayService"): ray_service,
    **{GroupKind("kueue.x-k8s.io", kind): kueue_queue for kind in ("ClusterQueue", "LocalQueue")},
    **{GroupKind("kueue.x-k8s.io", kind): kueue_queue for kind in ("AdmissionCheck", "MultiKueueCluster")},
    GroupKind("kueue.x-k8s.io", "Workload"): kueue_workload,
}
