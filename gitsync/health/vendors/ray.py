"""Health of Ray: clusters, jobs, their schedules, and services."""

from __future__ import annotations

from typing import Any

from gitsync.health.fields import condition, conditions, message, number, text
from gitsync.health.rules import Rule, degraded, healthy, progressing, suspended
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
    found, state = conditions(live), text(live, "status", "state")
    failed = condition(found, "ReplicaFailure") or {}
    if failed.get("status") == "True" or state == "failed":
        return degraded(_said(failed) or text(live, "status", "reason") or "failed")
    if _is_true(found, "RayClusterSuspending", "RayClusterSuspended") or state == "suspended":
        return suspended("the cluster is suspended")
    head, all_pods = condition(found, "HeadPodReady"), condition(found, "RayClusterProvisioned")
    if head is not None and head.get("status") == "False":
        return progressing(_said(head))
    ready, wanted = number(live, "status", "readyWorkerReplicas"), number(live, "status", "desiredWorkerReplicas")
    if all_pods is not None and all_pods.get("status") == "True" and ready < wanted:
        return progressing(f"{ready} of {wanted} workers are ready")
    if state == "ready" or (all_pods or {}).get("status") == "True":
        return healthy(_said(all_pods or {}))
    return progressing(_said(all_pods or {}) or "waiting for the Pods of the cluster")


def ray_job(live: Manifest) -> HealthStatus:
    """
    Judge a RayJob by its deployment status.

    Source: ray-project/kuberay 1.7, ray-operator/apis/ray/v1/rayjob_types.go (jobDeploymentStatus, jobStatus, message);
    ValidationFailed: the controller rejected its spec; Retrying: it starts a failed job again (backoffLimit); STOPPED:
    a user stopped the job.
    """
    word, job = text(live, "status", "jobDeploymentStatus"), text(live, "status", "jobStatus")
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
    found = conditions(live)
    ready, upgrade = condition(found, "Ready"), condition(found, "UpgradeInProgress") or {}
    if ready is not None and ready.get("reason") in _NEVER_SERVES:
        return degraded(_said(ready))
    if _is_true(found, "Suspending", "Suspended"):
        return suspended(_said(ready or {}))
    failed = _failed_application(live)
    if failed:
        return degraded(failed)
    if upgrade.get("status") == "True":
        return progressing(_said(upgrade))
    if ready is None:
        is_running = text(live, "status", "serviceStatus") == "Running"
        return healthy("Running") if is_running else progressing("waiting for the service")
    return healthy(message(ready)) if ready.get("status") == "True" else progressing(_said(ready))


def _failed_application(live: Manifest) -> str:
    applications = at(live, "status", "activeServiceStatus", "applicationStatuses") or {}
    for name, each in sorted(applications.items()):
        if each.get("status") in ("DEPLOY_FAILED", "UNHEALTHY"):
            return f"{name}: {each.get('message') or each['status']}"
    return ""


def _is_true(found: list[dict[str, Any]], *kinds: str) -> bool:
    return any(one.get("type") in kinds and one.get("status") == "True" for one in found)


def _said(sign: dict[str, object]) -> str:
    return message(sign) or text(sign, "reason")


RULES: dict[GroupKind, Rule] = {
    GroupKind("ray.io", "RayCluster"): ray_cluster,
    GroupKind("ray.io", "RayCronJob"): ray_cron_job,
    GroupKind("ray.io", "RayJob"): ray_job,
    GroupKind("ray.io", "RayService"): ray_service,
}
