"""CronJobs: a Job at each time of a schedule."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter

from gitsync.kube.times import seconds_of, timestamp
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    condition_of,
    controlled,
    controller_key,
    is_deleting,
    key_of,
    owner_reference,
)
from gitsync.sandbox.controllers.workloads.job import is_finished

_SOURCE = EventSource("cronjob-controller")
_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobs(SandboxController):
    """Create Jobs when they are due, as the concurrency policy allows, and keep the wanted number of old ones."""

    name = "cronjob"
    watches = frozenset({("batch", "CronJob"), ("batch", "Job")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the CronJob, or the one that controls the Job."""
        key = key_of(obj) if obj["kind"] == "CronJob" else controller_key(obj, "CronJob")
        if key:
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        """Follow the Jobs that run, start one that is due, and schedule the next reconcile."""
        cron_job = self.api.get("batch", "CronJob", *key)
        if cron_job is None or is_deleting(cron_job):
            return
        jobs = controlled(self.api, cron_job, "Job")
        status = self._follow(cron_job, jobs)
        if not cron_job["spec"].get("suspend"):
            status = self._run(cron_job, jobs, status)
        self._clean_up(cron_job, jobs)
        self.write_status(cron_job, status)

    def _follow(self, cron_job: Manifest, jobs: list[Manifest]) -> Manifest:
        """Return the status with the Jobs that run, and the end of the last that succeeded."""
        status = {key: value for key, value in (cron_job.get("status") or {}).items() if key != "active"}
        active = [_reference(job) for job in jobs if not is_finished(job) and not is_deleting(job)]
        ends = [at(job, "status", "completionTime") for job in jobs]
        last = max([status.get("lastSuccessfulTime") or "", *(end for end in ends if end)])
        return status | ({"active": active} if active else {}) | ({"lastSuccessfulTime": last} if last else {})

    def _run(self, cron_job: Manifest, jobs: list[Manifest], status: Manifest) -> Manifest:
        """Start the Job of the last time that passed since the one before, and schedule the next."""
        spec = cron_job["spec"]
        now = self.context.timers.now()
        try:
            zone = ZoneInfo(spec["timeZone"]) if spec.get("timeZone") else UTC
        # Validation checked the zone by the data of this machine; a restored database may come from another one.
        except (ZoneInfoNotFoundError, ValueError):
            text = f"invalid timeZone: {json.dumps(spec['timeZone'])}: unknown time zone {spec['timeZone']}"
            self.context.recorder.warning(cron_job, "UnknownTimeZone", text, _SOURCE)
            return status
        moment = datetime.fromtimestamp(now, zone)
        times = croniter(spec["schedule"], moment)
        # Before the early returns below: a suspended policy must not end the schedule.
        self.enqueue_after(key_of(cron_job), max(0.001, times.get_next(datetime).timestamp() - now))
        # A millisecond later, or a reconcile exactly at the minute would take the time before it.
        due = croniter(spec["schedule"], datetime.fromtimestamp(now + 0.001, zone)).get_prev(datetime).timestamp()
        since = status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"]
        # Of several missed times only the last one is started, as in Kubernetes.
        if due <= seconds_of(since):
            return status
        deadline = spec.get("startingDeadlineSeconds")
        if deadline is not None and now > due + deadline:
            return status
        active = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        policy = spec.get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.context.recorder.normal(cron_job, "JobAlreadyActive", text, _SOURCE)
            return status
        if policy == "Replace":
            for job in active:
                self._delete(cron_job, job)
            active = []
        return self._start(cron_job, active, status, due)

    def _start(self, cron_job: Manifest, active: list[Manifest], status: Manifest, due: float) -> Manifest:
        template = cron_job["spec"]["jobTemplate"]
        meta = cron_job["metadata"]
        template_metadata = template.get("metadata") or {}
        # Minutes since the epoch: a second controller would find the Job instead of creating another.
        name = f"{meta['name']}-{int(due // 60)}"
        job = self.api.get("batch", "Job", meta["namespace"], name)
        if job is None:
            metadata = {
                "name": name,
                "namespace": meta["namespace"],
                "annotations": {**(template_metadata.get("annotations") or {}), _SCHEDULED: timestamp(due)},
                "ownerReferences": [owner_reference(cron_job)],
            }
            if template_metadata.get("labels"):
                metadata["labels"] = template_metadata["labels"]
            manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}
            job = self.api.create(manifest, manager=MANAGER)
            self.context.recorder.normal(cron_job, "SuccessfulCreate", f"Created job {name}", _SOURCE)
        running = [_reference(running_job) for running_job in active] + [_reference(job)]
        return {**status, "active": running, "lastScheduleTime": timestamp(due)}

    def _clean_up(self, cron_job: Manifest, jobs: list[Manifest]) -> None:
        """Delete the oldest finished Jobs beyond the limits of the history."""
        spec = cron_job["spec"]
        for kind, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            ended = [job for job in jobs if condition_of(job, kind).get("status") == "True" and not is_deleting(job)]
            for job in ended[: max(0, len(ended) - limit)]:
                self._delete(cron_job, job)

    def _delete(self, cron_job: Manifest, job: Manifest) -> None:
        # The default of batch/v1 Jobs would leave their pods behind.
        self.api.delete(ObjectRef("batch", "Job", *key_of(job)), uid=uid_of(job), propagation="Background")
        text = f"Deleted job {job['metadata']['name']}"
        self.context.recorder.normal(cron_job, "SuccessfulDelete", text, _SOURCE)


def _reference(job: Manifest) -> Manifest:
    meta = job["metadata"]
    return {
        "kind": "Job",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
        "apiVersion": "batch/v1",
        "resourceVersion": meta["resourceVersion"],
    }
