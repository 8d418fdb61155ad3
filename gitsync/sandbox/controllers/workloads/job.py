"""Jobs: run pods until enough of them succeeded, or too many failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gitsync.kube.times import seconds_of
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers import indexes, pods
from gitsync.sandbox.controllers.base import Controller
from gitsync.sandbox.controllers.events import Source
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

TRACKING = "batch.kubernetes.io/job-tracking"
_SOURCE = Source("job-controller")
_FINAL = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
_LONGEST_DELAY = 360.0


@dataclass(frozen=True, slots=True)
class _Tally:
    """The pods of a Job by what became of them."""

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


class Jobs(Controller):
    """
    Create pods, count each exactly once, and say how it ended.

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
            or job["spec"].get("managedBy", "kubernetes.io/job-controller") != ("kubernetes.io/job-controller")
        ):
            return
        if is_finished(job):
            self._expire(job)
            return
        owned = controlled(self.api, job, "Pod")
        tally = self._tally(job, owned)
        conditions = self._conditions(job, owned, tally)
        target = next((each for each in conditions if each["type"] in _FINAL and each["status"] == "True"), None)
        if target is not None or job["spec"].get("suspend"):
            self._stop(job, tally.active)
        else:
            self._start(job, owned, tally)
        owned = controlled(self.api, job, "Pod")
        tally = self._tally(job, owned)
        if target is not None and tally.is_settled:
            conditions = [*conditions, self._condition(_FINAL[target["type"]], target["reason"], target["message"])]
        self._write(job, tally, conditions)
        self._release(tally.held)

    def _tally(self, job: Manifest, owned: Iterable[Manifest]) -> _Tally:
        status = job.get("status") or {}
        before = status.get("uncountedTerminatedPods") or {}
        finished = {uid_of(pod): pod for pod in owned if pods.is_finished(pod)}
        held = {uid: pod for uid, pod in finished.items() if TRACKING in (pod["metadata"].get("finalizers") or ())}
        uncounted: dict[str, list[str]] = {}
        counts = {"succeeded": status.get("succeeded", 0), "failed": status.get("failed", 0)}
        for member, phase in (("succeeded", "Succeeded"), ("failed", "Failed")):
            named = before.get(member) or []
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
        """Return the conditions with what is to be added: an end that came into sight, or the suspension."""
        known: list[Manifest] = at(job, "status", "conditions") or []
        if any(each["type"] in _FINAL and each["status"] == "True" for each in known):
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
        others = [each for each in known if each["type"] != "Suspended"]
        return [*others, changed]

    def _verdict(self, job: Manifest, owned: list[Manifest], tally: _Tally) -> tuple[str, str, str] | None:
        """Return the condition that says how the Job will end, None while that is open."""
        spec = job["spec"]
        failed = tally.failed + len(tally.uncounted.get("failed", ()))
        if spec["template"]["spec"].get("restartPolicy") == "OnFailure":
            failed += sum(pods.restarts(pod) for pod in owned)
        if failed > spec.get("backoffLimit", 6):
            return "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        deadline = spec.get("activeDeadlineSeconds")
        started = at(job, "status", "startTime")
        if deadline is not None and started and not spec.get("suspend"):
            left = seconds_of(started) + deadline - self.context.timers.now()
            if left <= 0:
                return "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.enqueue_after(key_of(job), left)
        succeeded = tally.succeeded + len(tally.uncounted.get("succeeded", ()))
        completions = spec.get("completions")
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
            seconds_of(at(each, "state", "terminated", "finishedAt"))
            for pod in owned
            if at(pod, "status", "phase") == "Failed"
            for each in pod["status"].get("containerStatuses") or ()
        ]
        if not failures or not ended:
            return 0.0
        pause = min(self.context.behaviour.job_back_off * float(2 ** (failures - 1)), _LONGEST_DELAY)
        return max(ended) + pause - self.context.timers.now()

    def _create(self, job: Manifest, owned: list[Manifest], count: int) -> None:
        for index in indexes.missing(job, owned, count):
            pod = pods.from_template(job["spec"]["template"], job)
            finalizers = [*(pod["metadata"].get("finalizers") or ()), TRACKING]
            pod = {**pod, "metadata": {**pod["metadata"], "finalizers": finalizers}}
            pod = self.api.create(pod if index is None else indexes.indexed(pod, job, index), manager=MANAGER)
            text = f"Created pod: {pod['metadata']['name']}"
            self.context.recorder.normal(job, "SuccessfulCreate", text, _SOURCE)

    def _stop(self, job: Manifest, active: Iterable[Manifest]) -> None:
        for pod in active:
            meta = pod["metadata"]
            self.api.delete(ObjectRef("", "Pod", meta["namespace"], meta["name"]), uid=meta["uid"])
            self.context.recorder.normal(job, "SuccessfulDelete", f"Deleted pod: {meta['name']}", _SOURCE)

    def _write(self, job: Manifest, tally: _Tally, conditions: list[Manifest]) -> None:
        spec, known = job["spec"], job.get("status") or {}
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
            status |= indexes.completed(known, tally.held)
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
        ended = next(each for each in job["status"]["conditions"] if each["type"] in _FINAL.values())
        left = seconds_of(ended["lastTransitionTime"]) + lifetime - self.context.timers.now()
        if left > 0:
            self.enqueue_after(key_of(job), left)
        else:
            self.api.delete(ObjectRef("batch", "Job", *key_of(job)), uid=uid_of(job), propagation="Foreground")


class JobTracking(Controller):
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


def release(controller: Controller, pod: Manifest) -> None:
    """Take the finalizer off a pod."""
    kept = [each for each in pod["metadata"]["finalizers"] if each != TRACKING]
    patch = {"metadata": {"finalizers": kept or None, "uid": uid_of(pod)}}
    controller.api.patch(ObjectRef("", "Pod", *key_of(pod)), patch, manager=MANAGER)


def is_finished(job: Manifest) -> bool:
    """Return whether the Job is Complete or Failed."""
    return any(condition_of(job, kind).get("status") == "True" for kind in _FINAL.values())
