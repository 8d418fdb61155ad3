"""Jobs: run pods until enough of them succeeded, or too many failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, annotations_of, at, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import pods
from gitsync.sandbox.controllers.base import SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    condition_of,
    controlled,
    controller_key,
    controller_ref,
    is_deleting,
    key_of,
    without_empty,
)
from gitsync.sandbox.controllers.pods import is_active

_INDEX = "batch.kubernetes.io/job-completion-index"


def missing_indexes(job: Manifest, owned: Iterable[Manifest], count: int) -> Sequence[int | None]:
    """Return the indexes of the next ``count`` pods, lowest first; None for each in a Job that is not indexed."""
    spec = job["spec"]
    if spec.get("completionMode") != "Indexed":
        return [None] * count
    done = _numbers(at(job, "status", "completedIndexes") or "")
    # A pod that succeeded may not be counted in the status yet.
    taken = {index_of(pod) for pod in owned if is_active(pod) or at(pod, "status", "phase") == "Succeeded"}
    free = [index for index in range(spec["completions"]) if index not in done and index not in taken]
    return free[:count]


def with_index(pod: Manifest, job: Manifest, index: int) -> Manifest:
    """Return the pod with its index as name, hostname, label, annotation and environment variable."""
    meta = pod["metadata"]
    name = f"{job['metadata']['name']}-{index}"
    field = f"metadata.annotations['{_INDEX}']"
    # By the annotation, so that a template can be shared by all pods.
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": field}}}
    spec = {**pod["spec"], "hostname": name}
    for member in ("containers", "initContainers"):
        if pod["spec"].get(member):
            spec[member] = [
                {**container, "env": [*(container.get("env") or ()), variable]} for container in pod["spec"][member]
            ]
    metadata = {
        **meta,
        "generateName": f"{name}-",
        "labels": {**(meta.get("labels") or {}), _INDEX: str(index)},
        "annotations": {**(meta.get("annotations") or {}), _INDEX: str(index)},
    }
    return {**pod, "metadata": metadata, "spec": spec}


def index_of(pod: Manifest) -> int:
    """Return the completion index of a pod, -1 where it has none."""
    text = annotations_of(pod).get(_INDEX, "")
    return int(text) if text.isdecimal() else -1


def completed_indexes(status: Manifest, finished: Iterable[Manifest]) -> Manifest:
    """Return the status member that names the completed indexes, as ranges: ``0-2,4``."""
    done = _numbers(status.get("completedIndexes") or "")
    done |= {index_of(pod) for pod in finished if at(pod, "status", "phase") == "Succeeded"}
    return {"completedIndexes": _ranges(sorted(done))}


def _numbers(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as the Job controller writes them, such as ``0,1,4-6``: a hyphen is for three and more."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)


TRACKING = "batch.kubernetes.io/job-tracking"
_SOURCE = EventSource("job-controller")
# KEP-3998: the first condition is set while pods still run, the second when they have ended.
_FINAL = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
# Six minutes, the bound that the documentation of Jobs names.
_LONGEST_DELAY = 360.0


@dataclass(frozen=True, slots=True)
class _Tally:
    """The pods of a Job by their state."""

    active: tuple[Manifest, ...]
    terminating: int
    succeeded: int
    failed: int
    uncounted: dict[str, list[str]]
    held: tuple[Manifest, ...]
    """Finished pods whose finalizer may go once the status names them."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing runs and everything is counted."""
        return not (self.active or self.terminating or self.uncounted)


class Jobs(SandboxController):
    """
    Create pods, count each exactly once, and report how it ended.

    A pod carries a finalizer until the status has its uid, so none is missed or counted twice.
    """

    name = "job"
    watches = frozenset({("batch", "Job"), ("", "Pod")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the Job, or the one that controls the pod."""
        key = key_of(obj) if obj["kind"] == "Job" else controller_key(obj, "Job")
        if key:
            self.enqueue(key)

    def reconcile(self, key: Key) -> None:
        """Count, decide, create or delete pods, and write the status."""
        job = self.api.get("batch", "Job", *key)
        if (
            job is None
            or is_deleting(job)
            # KEP-4368: another controller reconciles this Job.
            or job["spec"].get("managedBy", "kubernetes.io/job-controller") != ("kubernetes.io/job-controller")
        ):
            return
        if is_finished(job):
            self._expire(job)
            return
        owned = controlled(self.api, job, "Pod")
        tally = self._tally(job, owned)
        conditions = self._conditions(job, owned, tally)
        target = next(
            (condition for condition in conditions if condition["type"] in _FINAL and condition["status"] == "True"),
            None,
        )
        try:
            if target is not None or job["spec"].get("suspend"):
                self._stop(job, tally.active)
            else:
                self._start(job, owned, tally)
        finally:
            # Also where a Pod was refused, such as by a quota: syncJob writes startTime before it returns that error.
            self._report(job, conditions, target)

    def _report(self, job: Manifest, conditions: list[Manifest], target: Manifest | None) -> None:
        """Write the status after the Pods were created or deleted."""
        owned = controlled(self.api, job, "Pod")
        tally = self._tally(job, owned)
        if target is not None and tally.is_settled:
            conditions = [*conditions, self._condition(_FINAL[target["type"]], target["reason"], target["message"])]
        # Status first, then the finalizers: a crash between the two counts a pod once.
        self._write(job, tally, conditions)
        self._release(tally.held)

    def _tally(self, job: Manifest, owned: Iterable[Manifest]) -> _Tally:
        status = job.get("status") or {}
        old_uncounted = status.get("uncountedTerminatedPods") or {}
        finished = {uid_of(pod): pod for pod in owned if pods.is_finished(pod)}
        held = {uid: pod for uid, pod in finished.items() if TRACKING in (pod["metadata"].get("finalizers") or ())}
        uncounted: dict[str, list[str]] = {}
        counts = {"succeeded": status.get("succeeded", 0), "failed": status.get("failed", 0)}
        for member, phase in (("succeeded", "Succeeded"), ("failed", "Failed")):
            named = old_uncounted.get(member) or []
            # Its finalizer is gone, so the status before counted it.
            counts[member] += sum(uid not in held for uid in named)
            here = [uid for uid, pod in held.items() if at(pod, "status", "phase") == phase]
            if here:
                uncounted[member] = here
        return _Tally(
            tuple(pod for pod in owned if pods.is_active(pod)),
            sum(pods.is_terminating(pod) for pod in owned),
            counts["succeeded"],
            counts["failed"],
            uncounted,
            tuple(held.values()),
        )

    def _conditions(self, job: Manifest, owned: list[Manifest], tally: _Tally) -> list[Manifest]:
        """Return the conditions with what is to be added: the end that is decided now, or the suspension."""
        known: list[Manifest] = at(job, "status", "conditions") or []
        if any(condition["type"] in _FINAL and condition["status"] == "True" for condition in known):
            return known
        verdict = self._verdict(job, owned, tally)
        if verdict is not None:
            if verdict[0] == "FailureTarget":
                self.context.recorder.warning(job, verdict[1], verdict[2], _SOURCE)
            return [*known, self._condition(*verdict)]
        return self._suspension(job, known)

    def _suspension(self, job: Manifest, known: list[Manifest]) -> list[Manifest]:
        suspended = bool(job["spec"].get("suspend"))
        was = condition_of(job, "Suspended").get("status") == "True"
        if suspended == was:
            return known
        reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        self.context.recorder.normal(job, reason.removeprefix("Job"), message, _SOURCE)
        changed = self._condition("Suspended", reason, message, holds=suspended)
        others = [condition for condition in known if condition["type"] != "Suspended"]
        return [*others, changed]

    def _verdict(self, job: Manifest, owned: list[Manifest], tally: _Tally) -> tuple[str, str, str] | None:
        """Return the condition that says how the Job will end, None while that is undecided."""
        spec = job["spec"]
        failed = tally.failed + len(tally.uncounted.get("failed", ()))
        # The kubelet restarts the container, so failures are restarts instead of pods.
        if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            failed += sum(pods.restarts(pod) for pod in owned)
        if failed > spec.get("backoffLimit", 6):
            return "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = spec.get("activeDeadlineSeconds")
        started = at(job, "status", "startTime")
        if deadline is not None and started and not spec.get("suspend"):
            seconds_left = seconds_of(started) + deadline - self.context.timers.now()
            if seconds_left <= 0:
                return "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue_after(key_of(job), seconds_left)
        succeeded = tally.succeeded + len(tally.uncounted.get("succeeded", ()))
        completions = spec.get("completions")
        # A work queue is done when one pod succeeded and no other runs.
        enough = succeeded >= completions if completions is not None else succeeded > 0 and not tally.active
        if enough:
            return "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _condition(self, kind: str, reason: str, message: str, *, holds: bool = True) -> Manifest:
        now = self.context.now()
        return {
            "type": kind,
            "status": "True" if holds else "False",
            "lastProbeTime": now,
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }

    def _start(self, job: Manifest, owned: list[Manifest], tally: _Tally) -> None:
        """Create the pods that are missing, later if pods failed lately."""
        spec = job["spec"]
        succeeded = tally.succeeded + len(tally.uncounted.get("succeeded", ()))
        completions = spec.get("completions")
        wanted = spec.get("parallelism", 1)
        if completions is not None:
            wanted = min(wanted, completions - succeeded)
        # A work queue whose first pod succeeded starts no new ones.
        elif succeeded:
            wanted = min(wanted, len(tally.active))
        running = len(tally.active) + (tally.terminating if spec.get("podReplacementPolicy") == "Failed" else 0)
        if running > wanted:
            self._stop(job, sorted(tally.active, key=pods.deletion_rank)[: running - wanted])
        elif running < wanted:
            delay = self._delay(owned, tally)
            if delay > 0:
                self.enqueue_after(key_of(job), delay)
                return
            self._create(job, owned, wanted - running)

    def _delay(self, owned: list[Manifest], tally: _Tally) -> float:
        """Return how long to wait after the last failure: each one doubles it."""
        failures = tally.failed + len(tally.uncounted.get("failed", ()))
        ended = [
            seconds_of(at(container_status, "state", "terminated", "finishedAt"))
            for pod in owned
            if at(pod, "status", "phase") == "Failed"
            for container_status in pod["status"].get("containerStatuses") or ()
        ]
        if not failures or not ended:
            return 0.0
        pause = min(self.context.behaviour.job_back_off * float(2 ** (failures - 1)), _LONGEST_DELAY)
        return max(ended) + pause - self.context.timers.now()

    def _create(self, job: Manifest, owned: list[Manifest], count: int) -> None:
        for index in missing_indexes(job, owned, count):
            pod = pods.from_template(job["spec"]["template"], job)
            finalizers = [*(pod["metadata"].get("finalizers") or ()), TRACKING]
            pod = {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}
            pod = self.api.create(pod if index is None else with_index(pod, job, index), manager=MANAGER)
            text = f"Created pod: {pod['metadata']['name']}"
            self.context.recorder.normal(job, "SuccessfulCreate", text, _SOURCE)

    def _stop(self, job: Manifest, active: Iterable[Manifest]) -> None:
        for pod in active:
            meta = pod["metadata"]
            self.api.delete(ObjectRef("", "Pod", meta["namespace"], meta["name"]), uid=meta["uid"])
            self.context.recorder.normal(job, "SuccessfulDelete", f"Deleted pod: {meta['name']}", _SOURCE)

    def _write(self, job: Manifest, tally: _Tally, conditions: list[Manifest]) -> None:
        spec = job["spec"]
        known = job.get("status") or {}
        started = None if spec.get("suspend") else known.get("startTime") or self.context.now()
        complete = bool(conditions) and conditions[-1]["type"] == "Complete"
        optional = {
            "conditions": conditions,
            "startTime": started,
            "completionTime": self.context.now() if complete else None,
            "active": len(tally.active),
            "succeeded": tally.succeeded,
            "failed": tally.failed,
        }
        status = {
            **without_empty(optional),
            "terminating": tally.terminating,
            "uncountedTerminatedPods": tally.uncounted,
            "ready": sum(pods.is_ready(pod) for pod in tally.active),
        }
        if spec.get("completionMode") == "Indexed":
            status |= completed_indexes(known, tally.held)
        if complete:
            self.context.recorder.normal(job, "Completed", "Job completed", _SOURCE)
        self.write_status(job, status)

    def _release(self, held: Iterable[Manifest]) -> None:
        for pod in held:
            release(self, pod)

    def _expire(self, job: Manifest) -> None:
        """Delete a finished Job when its time to live is over."""
        lifetime = job["spec"].get("ttlSecondsAfterFinished")
        if lifetime is None:
            return
        ended = next(condition for condition in job["status"]["conditions"] if condition["type"] in _FINAL.values())
        seconds_left = seconds_of(ended["lastTransitionTime"]) + lifetime - self.context.timers.now()
        if seconds_left > 0:
            self.enqueue_after(key_of(job), seconds_left)
        else:
            # As pkg/controller/ttlafterfinished does.
            self.api.delete(ObjectRef("batch", "Job", *key_of(job)), uid=uid_of(job), propagation="Foreground")


class JobTracking(SandboxController):
    """Take the finalizer off the pods of Jobs that are gone, so that they can go too."""

    name = "job-tracking"
    watches = frozenset({("batch", "Job"), ("", "Pod")})

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark a pod that still has the finalizer though nothing counts it."""
        if obj["kind"] == "Job":
            if event == "DELETED" or is_deleting(obj):
                for pod in self.api.owned_by(uid_of(obj)):
                    if pod["kind"] == "Pod":
                        self.enqueue(key_of(pod))
        elif (
            event != "DELETED"
            and TRACKING in (obj["metadata"].get("finalizers") or ())
            and (is_deleting(obj) or controller_ref(obj) is None)
        ):
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        """Release the pod unless its Job is there and counts."""
        pod = self.api.get("", "Pod", *key)
        if pod is None or TRACKING not in (pod["metadata"].get("finalizers") or ()):
            return
        reference = controller_ref(pod)
        job = self.api.get("batch", "Job", key[0], reference["name"]) if reference else None
        lost = job is None or is_deleting(job) or uid_of(job) != (reference or {}).get("uid")
        if lost or (job is not None and is_finished(job)):
            release(self, pod)


def release(controller: SandboxController, pod: Manifest) -> None:
    """Take the finalizer off a pod."""
    kept = [name for name in pod["metadata"]["finalizers"] if name != TRACKING]
    # In a merge patch null removes the member; an empty list would be stored as one.
    patch = {"metadata": {"finalizers": kept or None, "uid": uid_of(pod)}}
    controller.api.patch(ObjectRef("", "Pod", *key_of(pod)), patch, manager=MANAGER)


def is_finished(job: Manifest) -> bool:
    """Return whether the Job is Complete or Failed."""
    return any(condition_of(job, kind).get("status") == "True" for kind in _FINAL.values())
