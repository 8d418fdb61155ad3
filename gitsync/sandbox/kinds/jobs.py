"""Validation of Jobs and CronJobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds import counts
from gitsync.sandbox.kinds.cron import schedule_problem, time_zone_problem
from gitsync.sandbox.kinds.job_policies import validate_pod_failure_policy, validate_success_policy
from gitsync.sandbox.kinds.pods.pod import validate_template
from gitsync.sandbox.kinds.workloads import MISMATCH
from gitsync.sandbox.validation.causes import (
    domain_prefixed_path,
    immutable,
    invalid,
    minimum,
    not_supported,
    one_of,
    required,
    too_long,
)
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_subdomain, longer_than

_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_MODES = ("Indexed", "NonIndexed")
_RUNS_OUT = ("Never", "OnFailure")
_NEEDED = 'valid values: "OnFailure", "Never"'
# 63 for a label value, less the dash and ten digits of the scheduled minute that name each Job.
_CRON_NAME_LIMIT = 52
# pkg/apis/batch/validation: maxManagedByLength, that of a label value.
_MANAGER_LIMIT = 63
# pkg/apis/batch/validation: completionsSoftLimit; the status lists failed indexes and has to fit into an object.
_MOST_FAILED_INDEXES = 100_000
# The names without a prefix are from before the labels had a domain; both are written.
_UID_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")


def validate_job(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """
    Check a Job (pkg/apis/batch/validation: ValidateJob and its update).

    On an update the real server checks the spec twice, as that of a Job and as that of a change, and lists both.
    """
    spec = new["spec"]
    causes = _job_spec(spec, "spec") + _selector(spec)
    # First in the list of causes, and once also on an update.
    generated = _generated_selector(new)
    return generated + causes if old is None else generated + causes + causes + _job_update(spec, old)


def _generated_selector(job: Manifest) -> list[StatusCause]:
    """Check what the server generated: labels of the template, selector (validateGeneratedSelector)."""
    selector = job["spec"].get("selector")
    metadata = job["metadata"]
    # The user vouches for uniqueness then.
    if selector is None or job["spec"].get("manualSelector"):
        return []
    expected = dict.fromkeys(_UID_LABELS, metadata.get("uid", "")) | dict.fromkeys(_NAME_LABELS, metadata["name"])
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    causes = list[StatusCause]()
    for key, value in expected.items():
        field = f"spec.template.metadata.labels[{key}]"
        text = f"must be '{value}'"
        if key not in labels:
            causes.append(required(field, text))
        elif labels[key] != value:
            causes.append(invalid(field, labels, text))
    # A selector that cannot be converted is reported elsewhere, so it is not evaluated here.
    if not validate_selector(selector, "") and not matches(selector, expected):
        causes.append(invalid("spec.selector", selector, "`selector` not auto-generated"))
    return causes


def _selector(spec: Mapping[str, Any]) -> list[StatusCause]:
    selector = spec.get("selector")
    causes = [required("spec.selector")] if selector is None else validate_selector(selector, "spec.selector")
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if selector is None or not matches(selector, labels or {}):
        causes.append(invalid("spec.template.metadata.labels", labels, MISMATCH))
    return causes


def _job_spec(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    causes = []
    for member in _COUNTS:
        causes += minimum(f"{field}.{member}", spec.get(member))
    causes += _indexed(spec, field)
    replacements = ("Failed", "TerminatingOrFailed")
    causes += one_of(f"{field}.podReplacementPolicy", spec.get("podReplacementPolicy"), replacements)
    if spec.get("managedBy") is not None:
        path = f"{field}.managedBy"
        manager = spec["managedBy"]
        causes += domain_prefixed_path(path, manager)
        causes += [too_long(path, _MANAGER_LIMIT)] if len(manager) > _MANAGER_LIMIT else []
    causes += validate_pod_failure_policy(spec, field)
    causes += validate_template(spec["template"], f"{field}.template")
    policy = (spec["template"].get("spec") or {}).get("restartPolicy")
    path = f"{field}.template.spec.restartPolicy"
    # A pod that restarts for ever never completes its Job.
    if policy in ("Always", ""):
        causes.append(required(path, _NEEDED))
    elif policy not in _RUNS_OUT:
        causes.append(not_supported(path, policy, _RUNS_OUT))
    # With OnFailure the kubelet restarts the container, so no failed pod would be counted.
    elif "podFailurePolicy" in spec and policy != "Never":
        causes.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))
    return causes


def _indexed(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    mode = spec.get("completionMode")
    causes = one_of(f"{field}.completionMode", mode, _MODES)
    # Indexes run from 0 to completions - 1, so the number has to be known.
    if mode == "Indexed" and "completions" not in spec:
        causes.append(required(f"{field}.completions", "when completion mode is Indexed"))
    if mode != "Indexed":
        for member in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if member in spec:
                text = "requires indexed completion mode"
                causes.append(invalid(f"{field}.{member}", spec[member], text))
    if mode == "Indexed" and "successPolicy" in spec:
        causes += validate_success_policy(spec, f"{field}.successPolicy.rules")
    causes += minimum(f"{field}.backoffLimitPerIndex", spec.get("backoffLimitPerIndex"))
    causes += minimum(f"{field}.maxFailedIndexes", spec.get("maxFailedIndexes"))
    return causes + (_failed_indexes(spec, field) if "maxFailedIndexes" in spec else [])


def _failed_indexes(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the limit of failed indexes, which needs a limit of each and is not above the completions."""
    causes = list[StatusCause]()
    limit = spec["maxFailedIndexes"]
    path = f"{field}.maxFailedIndexes"
    if "backoffLimitPerIndex" not in spec:
        causes.append(required(f"{field}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if spec.get("completionMode") == "Indexed" and limit > spec.get("completions", limit):
        causes.append(invalid(path, limit, "must be less than or equal to completions"))
    if spec.get("completionMode") == "Indexed" and limit > _MOST_FAILED_INDEXES:
        causes.append(invalid(path, limit, f"must be less than or equal to {_MOST_FAILED_INDEXES}"))
    return causes


def _job_update(new: Mapping[str, Any], stored_job: Manifest) -> list[StatusCause]:
    old = stored_job["spec"]
    causes = _completions(new, old)
    causes += immutable("spec.selector", new.get("selector"), old.get("selector"))
    # KEP-2926: queue controllers such as Kueue decide where a suspended Job runs.
    if _may_be_placed(stored_job):
        # Labels and annotations of the template are free then as well.
        pod = new["template"].get("spec") or {}
        stored = old["template"].get("spec") or {}
        if _unplaced(pod) != _unplaced(stored):
            causes += immutable("spec.template.spec", pod, stored)
    else:
        causes += immutable("spec.template", new["template"], old["template"])
    for member in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        causes += immutable(f"spec.{member}", new.get(member), old.get(member))
    return causes


def _completions(new: Mapping[str, Any], old: Mapping[str, Any]) -> list[StatusCause]:
    completions = new.get("completions")
    # KEP-3715, elastic indexed Jobs: completions may follow parallelism.
    if new.get("completionMode") != "Indexed":
        return immutable("spec.completions", completions, old.get("completions"))
    if completions in (None, old.get("completions"), new.get("parallelism")):
        return []
    return [invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")]


def _may_be_placed(job: Manifest) -> bool:
    """Return whether placement and resources may change: the Job is suspended and none of its pods is active."""
    status = job.get("status") or {}
    conditions = status.get("conditions") or ()
    stopped = any(item.get("type") == "Suspended" and item.get("status") == "True" for item in conditions)
    # One that never started has no condition yet.
    halted = stopped or not status.get("startTime")
    return bool(job["spec"].get("suspend")) and halted and not status.get("active")


def _unplaced(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod spec without node selection, tolerations, scheduling gates and resources of containers."""
    free = ("nodeSelector", "tolerations", "schedulingGates")
    fixed = {key: value for key, value in pod.items() if key not in free}
    # Pod affinity stays fixed: it is about other pods, not about capacity.
    affinity = {key: value for key, value in (pod.get("affinity") or {}).items() if key != "nodeAffinity"}
    fixed["affinity"] = affinity
    for member in ("containers", "initContainers"):
        containers = pod.get(member) or ()
        fixed[member] = [{key: item[key] for key in item if key != "resources"} for item in containers]
    return fixed


def validate_job_status(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check counts and indexes in the status of a Job (pkg/apis/batch/validation: validateJobStatus)."""
    status = new.get("status") or {}
    old_status = (old or {}).get("status") or {}
    causes = counts.JOB.validate(new, old)
    spec = new["spec"]
    # An elastic Job that was scaled down has fewer indexes that can have succeeded.
    may_shrink = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    for name in ("failed",) if may_shrink else ("failed", "succeeded"):
        if status.get(name, 0) < old_status.get(name, 0):
            causes.append(invalid(f"status.{name}", status.get(name, 0), f"cannot decrease the {name} counter"))
    ready = status.get("ready") or 0
    active = status.get("active", 0)
    # Statuses stored by an older server may violate this; only a change of the counts is checked.
    is_changed = any(status.get(name) != old_status.get(name) for name in ("ready", "active"))
    if is_changed and ready > active:
        causes.append(invalid("status.ready", ready, "cannot set more ready pods than active"))
    failed = status.get("failedIndexes")
    if failed is not None and failed != old_status.get("failedIndexes") and "backoffLimitPerIndex" not in new["spec"]:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        causes.append(invalid("status.failedIndexes", failed, text))
    return causes


def cron_job_name(name: str) -> list[str]:
    """Check the name of a CronJob: its Jobs add eleven characters."""
    # Only on creation: CronJobs from before the limit may still be updated.
    if len(name) > _CRON_NAME_LIMIT:
        return [longer_than(_CRON_NAME_LIMIT)]
    return dns_subdomain(name)


def validate_cron_job(new: Manifest, old: Manifest | None) -> list[StatusCause]:
    """Check a CronJob."""
    spec = new["spec"]
    schedule = spec.get("schedule", "")
    causes = []
    if not schedule:
        causes.append(required("spec.schedule"))
    # The parser would accept CRON_TZ=…, which never was a promise of the API.
    elif "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        causes.append(invalid("spec.schedule", schedule, text))
    elif problem := schedule_problem(schedule):
        causes.append(invalid("spec.schedule", schedule, problem))
    causes += minimum("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    if "timeZone" in spec and (problem := time_zone_problem(spec["timeZone"])):
        causes.append(invalid("spec.timeZone", spec["timeZone"], problem))
    policies = ("Allow", "Forbid", "Replace")
    causes += one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), policies)
    job = spec["jobTemplate"]["spec"]
    causes += _job_spec(job, "spec.jobTemplate.spec")
    # Each Job of a CronJob needs a selector of its own.
    if job.get("manualSelector"):
        causes.append(not_supported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false")))
    for member in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        causes += minimum(f"spec.{member}", spec.get(member))
    return causes
