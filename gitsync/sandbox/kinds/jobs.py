"""
Validation of Jobs, with their failure and success policies (pkg/apis/batch/validation), and of CronJobs.

Schedules of CronJobs are parsed with the error messages of the API server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.errors import StatusCause
from gitsync.sandbox.kinds import counts
from gitsync.sandbox.kinds.pods.pod import validate_template
from gitsync.sandbox.kinds.workloads import MISMATCH
from gitsync.sandbox.validation.causes import (
    domain_prefixed_path,
    duplicate,
    immutable,
    invalid,
    minimum,
    not_supported,
    one_of,
    required,
    too_long,
    too_many,
)
from gitsync.sandbox.validation.metadata import validate_selector
from gitsync.sandbox.validation.names import dns_subdomain, longer_than, qualified_name

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# github.com/robfig/cron/v3, the parser of the API server, has the days 0 to 6: 7 is not Sunday there.
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (  # least and greatest value, names
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
# @reboot, which other crons know, is not among them.
_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with a schedule, empty when nothing is."""
    if schedule.startswith("@"):
        return _descriptor_problem(schedule)
    parts = schedule.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]"
    for part, (least, most, names) in zip(parts, _FIELDS, strict=True):
        # Empty parts of a list are skipped by the Go parser (strings.FieldsFunc), so "1,,2" is valid.
        for expression in part.split(","):
            problem = _range_problem(expression, least, most, names) if expression else ""
            if problem:
                return problem
    return ""


def _descriptor_problem(schedule: str) -> str:
    if schedule in _DESCRIPTORS:
        return ""
    if schedule.startswith("@every "):
        duration = schedule[len("@every ") :]
        # Go's duration in the forms people write; a full parser would reject no schedule that occurs.
        if duration and duration[-1] in "smh" and duration[0].isdecimal():
            return ""
        return f'failed to parse duration {schedule}: time: invalid duration "{duration}"'
    return f"unrecognized descriptor: {schedule}"


def _range_problem(expression: str, least: int, most: int, names: dict[str, int]) -> str:
    bounds, *steps = expression.split("/")
    ends = bounds.split("-")
    if len(steps) > 1:
        return f"too many slashes: {expression}"
    # A question mark means any value here, as an asterisk does.
    if ends[0] in ("*", "?"):
        start = least
        end = most
    else:
        if len(ends) > 2:
            return f"too many hyphens: {expression}"
        numbers = [_number(text, names) for text in ends]
        for number in numbers:
            if isinstance(number, str):
                return number
        start = int(numbers[0])
        # "5/10" counts from 5 to the end of the range, "5" is 5 alone.
        end = int(numbers[-1]) if len(ends) == 2 else (most if steps else start)
    step = _number(steps[0], {}) if steps else 1
    if isinstance(step, str):
        return step
    if start < least:
        return f"beginning of range ({start}) below minimum ({least}): {expression}"
    if end > most:
        return f"end of range ({end}) above maximum ({most}): {expression}"
    if start > end:
        return f"beginning of range ({start}) beyond end of range ({end}): {expression}"
    return "" if step else f"step of range should be a positive number: {expression}"


def _number(text: str, names: dict[str, int]) -> int | str:
    """Return the number, or what is wrong with it."""
    if text.lower() in names:
        return names[text.lower()]
    try:
        number = int(text)
    except ValueError:
        return f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
    return number if number >= 0 else f"negative number ({number}) not allowed: {text}"


def time_zone_problem(zone: str) -> str:
    """Return what is wrong with a time zone, empty when nothing is."""
    if not zone:
        return "timeZone must be nil or non-empty string"
    # Go would take the zone of the machine that the controller runs on.
    if zone.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        ZoneInfo(zone)
    # ZoneInfo raises KeyError for an unknown name, ValueError for one that leaves its folder, OSError for a name of a
    # folder.
    except (KeyError, ValueError, OSError):
        return f"unknown time zone {zone}"
    return ""


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


_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
# pkg/apis/batch/validation: maxPodFailurePolicyRules.
_MOST_RULES = 20
# maxPodFailurePolicyOnExitCodesValues: exit codes are one byte, and 0 is not a failure.
_MOST_VALUES = 255


def validate_pod_failure_policy(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the rules of a Job's spec; their containers have to be in its template."""
    rules = (spec.get("podFailurePolicy") or {}).get("rules") or ()
    if len(rules) > _MOST_RULES:
        return [too_many(f"{field}.podFailurePolicy.rules", len(rules), _MOST_RULES)]
    pod = spec["template"].get("spec") or {}
    names = {container.get("name") for group in ("containers", "initContainers") for container in pod.get(group) or ()}
    causes = []
    for index, rule in enumerate(rules):
        path = f"{field}.podFailurePolicy.rules[{index}]"
        causes += _action(rule.get("action", ""), "backoffLimitPerIndex" in spec, f"{path}.action")
        causes += _source(rule, path)
        if rule.get("onExitCodes") is not None:
            causes += _exit_codes(rule["onExitCodes"], names, f"{path}.onExitCodes")
        for number, pattern in enumerate(rule.get("onPodConditions") or ()):
            causes += _condition(pattern, f"{path}.onPodConditions[{number}]")
    return causes


def _action(action: str, limits_indexes: bool, field: str) -> list[StatusCause]:
    # Without a limit for each index an index cannot fail alone.
    if action == "FailIndex" and not limits_indexes:
        return [invalid(field, action, "requires the backoffLimitPerIndex to be set")]
    return _choice(action, _ACTIONS, field)


def _choice(value: str, choices: Sequence[str], field: str) -> list[StatusCause]:
    if not value:
        # Go prints a slice with blanks between its items.
        quoted = " ".join(f'"{choice}"' for choice in choices)
        return [required(field, f"valid values: [{quoted}]")]
    return [] if value in choices else [not_supported(field, value, choices)]


def _source(rule: Mapping[str, Any], field: str) -> list[StatusCause]:
    has_codes = rule.get("onExitCodes") is not None
    has_conditions = bool(rule.get("onPodConditions"))
    # A rule matches by one thing, so that the first match is clear.
    if has_codes != has_conditions:
        return []
    both = "specifying both OnExitCodes and OnPodConditions is not supported"
    none = "specifying one of OnExitCodes and OnPodConditions is required"
    return [invalid(field, "", both if has_codes else none)]


def _exit_codes(codes: Mapping[str, Any], names: set[Any], field: str) -> list[StatusCause]:
    operator = codes.get("operator", "")
    values = codes.get("values") or []
    causes = _choice(operator, _OPERATORS, f"{field}.operator")
    container = codes.get("containerName")
    if container is not None and container not in names:
        text = "must be one of the container or initContainer names in the pod template"
        causes.append(invalid(f"{field}.containerName", container, text))
    if not values:
        causes.append(invalid(f"{field}.values", values, "at least one value is required"))
    elif len(values) > _MOST_VALUES:
        causes.append(too_many(f"{field}.values", len(values), _MOST_VALUES))
    for index, value in enumerate(values):
        # A container that ended with 0 has succeeded.
        if operator == "In" and value == 0:
            causes.append(invalid(f"{field}.values[{index}]", 0, "must not be 0 for the In operator"))
        if value in values[:index]:
            causes.append(duplicate(f"{field}.values[{index}]", value))
    # The list is a set in the schema; one order makes two equal rules equal bytes.
    if sorted(values) != values:
        causes.append(invalid(f"{field}.values", values, "must be ordered"))
    return causes


def _condition(pattern: Mapping[str, Any], field: str) -> list[StatusCause]:
    kind = pattern.get("type", "")
    causes = [invalid(f"{field}.type", kind, text) for text in qualified_name(kind)]
    return causes + _choice(pattern.get("status", ""), _STATUSES, f"{field}.status")


# pkg/apis/batch/validation: maxJobSuccessPolicyRule.
_MAX_RULES = 20
# maxJobSuccessPolicySucceededIndexesLimit, in bytes of the text.
_MAX_INDEXES = 64 * 1024


def validate_success_policy(spec: Mapping[str, Any], field: str) -> list[StatusCause]:
    """Check the rules of a success policy (pkg/apis/batch/validation: validateSuccessPolicy)."""
    rules = spec["successPolicy"].get("rules") or ()
    completions = spec.get("completions", 0)
    text = "at least one rules must be specified when the successPolicy is specified"
    causes = [] if rules else [required(field, text)]
    causes += [too_many(field, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    for index, rule in enumerate(rules):
        causes += _rule(rule, f"{field}[{index}]", completions)
    return causes


def _rule(rule: Mapping[str, Any], field: str, completions: int) -> list[StatusCause]:
    count = rule.get("succeededCount")
    indexes = rule.get("succeededIndexes")
    if count is None and indexes is None:
        return [required(field, "at least one of succeededCount or succeededIndexes must be specified")]
    causes = list[StatusCause]()
    total = 0
    if indexes is not None:
        path = f"{field}.succeededIndexes"
        causes += [too_long(path, _MAX_INDEXES)] if len(indexes) > _MAX_INDEXES else []
        try:
            total = _count(indexes, completions)
        except ValueError as error:
            causes.append(invalid(path, indexes, f"error parsing succeededIndexes: {error}"))
    return causes if count is None else causes + _counted(count, f"{field}.succeededCount", completions, indexes, total)


def _counted(count: int, field: str, completions: int, indexes: str | None, total: int) -> list[StatusCause]:
    causes = minimum(field, count)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        causes.append(invalid(field, count, text))
    if indexes is not None and count > total:
        text = f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        causes.append(invalid(field, count, text))
    return causes


def _count(indexes: str, completions: int) -> int:
    """Return how many indexes a text such as ``1,3-5`` names; raise ValueError for another (validateIndexesFormat)."""
    total = 0
    last = -1
    for part in indexes.split(",") if indexes else ():
        ends = part.split("-")
        if len(ends) > 2 or not all(end.isascii() and end.isdecimal() for end in ends):
            raise ValueError(
                f'the fragment "{part}" violates the requirement that an index interval can have at most two parts'
            )
        first = int(ends[0])
        final = int(ends[-1])
        if max(first, final) >= completions:
            raise ValueError(f'too large index: "{max(first, final)}"')
        # Ordered and disjoint, so that the count needs no set.
        if first <= last or (len(ends) == 2 and final <= first):
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total = total + final - first + 1
        last = final
    return total
