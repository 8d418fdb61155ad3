"""Health of kinds that run to completion: Jobs, CronJobs and Argo's workflows."""

from __future__ import annotations

from gitsync.health.fields import conditions, message, spec_of, status_of, text
from gitsync.health.rules import degraded, healthy, progressing, suspended, unknown
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest


def job(live: Manifest) -> HealthStatus:
    """Judge a Job by its conditions."""
    found = {text(each, "type"): each for each in conditions(live)}
    if "Failed" in found:
        return degraded(message(found["Failed"]))
    if "Suspended" in found and found["Suspended"].get("status") == "True":
        return suspended(message(found["Suspended"]))
    for kind in ("Complete", "Suspended"):
        if kind in found:
            return healthy(message(found[kind]))
    return progressing()


def cron_job(live: Manifest) -> HealthStatus:
    """Judge a CronJob by its last run; missed runs are not visible. A suspended one is healthy."""
    if spec_of(live).get("suspend") is True:
        return healthy("CronJob is Suspended")
    status = live.get("status")
    if status is None:
        return progressing("Waiting for CronJob")
    scheduled, succeeded = text(status, "lastScheduleTime"), text(status, "lastSuccessfulTime")
    if not scheduled:
        return healthy("CronJob has not been scheduled yet")
    if not succeeded:
        return healthy("The CronJob never completed successfully. It may not be healthy")
    if status_of(live).get("active"):
        return healthy("The job is running. Its last execution may not have been successful")
    if succeeded < scheduled:
        return degraded("CronJob has not completed its last execution successfully")
    return healthy("CronJob has completed its last execution successfully")


def workflow(live: Manifest) -> HealthStatus:
    """Judge an Argo Workflow by its phase."""
    phase, detail = text(live, "status", "phase"), text(live, "status", "message")
    if phase in ("", "Pending", "Running"):
        return progressing(detail)
    if phase == "Succeeded":
        return healthy(detail)
    return degraded(detail) if phase in ("Failed", "Error") else unknown(detail)
