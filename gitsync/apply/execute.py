"""Execute a plan as far as it goes now."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from gitsync.apply.change import ApplyProgress, ApplyRequest, StepResult, apply_change
from gitsync.apply.owner_writes import NotAnswered, WritesByOwner, waiting_for_answers
from gitsync.errors import Rejected
from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind, is_established, may_be_outdated, served_versions
from gitsync.kube.messages import is_misfit
from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import Outcome
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan.order import batches
from gitsync.ports import Cluster, LiveCache, Ports

_REFUSALS_BY_DEFINITION = frozenset({400, 404, 422, 500})
"""Invalid by fieldValidation, a version that is not served, invalid by the schema, and unfit for server-side apply."""


class Applier:
    """
    Execute plans, stage by stage and wave by wave.

    Before a batch is written, its intents are in the audit and its objects in the inventory; after it, its outcomes
    are in the audit. So a crash at any moment leaves no unrecorded write, see ``OwnerWrites``. RecordUnavailable stops
    everything.
    """

    def __init__(self, ports: Ports, writes: WritesByOwner) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._clock = ports.clock
        self._writes = writes

    def execute(self, request: ApplyRequest) -> ApplyProgress:
        """
        Carry out the plan's batches in order until done, or until one has to wait.

        An object that failed, or a definition that is not established, holds back what depends on it and nothing
        else. Nothing is pruned in a pass in which an apply failed or waits.
        """
        results: list[StepResult] = []
        waiting = ""
        is_polled = False
        for batch in batches(request.plan.changes):
            # an explicit wave is a dependency on all of the earlier ones, also on what waits in them
            if unhealthy := unhealthy_wave(request, batch, self._cluster, self._live):
                return ApplyProgress(tuple(results), waiting=waiting or unhealthy, is_polled=is_polled)
            # also of earlier batches: a namespace that failed holds back everything in it
            failed = [result.change for result in results if result.outcome is Outcome.FAILED]
            ready, blocked = _split(batch, failed)
            results += blocked
            undefined = _redefined(ready, results) | missing_definitions(request, ready, self._cluster, self._live)
            waiting = waiting or next(iter(undefined.values()), "")
            due = [
                change
                for change in ready
                if change.ref.of not in undefined
                and not is_recreation(change)
                # it is a step until it is gone, since later waves wait for that
                and not is_terminating(change)
                and not (waiting and change.action in (Action.PRUNE, Action.RELEASE))  # its successor may wait
            ]
            # an object that is being deleted is created by a later reconcile, once its name is free
            written = self.write(request, due)
            outdated = [result.change.ref for result in written if request.plans_again and result.is_outdated]
            premature = self._judged_too_early(request, written)
            is_polled = is_polled or bool(premature)
            waiting = waiting or next(iter(premature.values()), "")
            results += [
                result
                for result in written
                if not isinstance(result.error, NotAnswered)
                and result.change.ref not in outdated
                and not _is_premature(result, premature)
            ]
            # later stages may need what is not answered, and the last answer enqueues the owner
            if unanswered := waiting_for_answers(written):
                return ApplyProgress(tuple(results), waiting=unanswered)
            if outdated:
                changed = f"{outdated[0]} to be planned again, since it changed meanwhile"
                return ApplyProgress(tuple(results), waiting=changed, is_outdated=True)
        return ApplyProgress(tuple(results), waiting=waiting or _recreation(request, results), is_polled=is_polled)

    def _judged_too_early(self, request: ApplyRequest, results: Iterable[StepResult]) -> dict[GroupKind, str]:
        """Return the kinds of refused steps whose changed definition may not be in effect yet, with the reason."""
        kinds = {result.change.ref.of for result in results if _is_refused(result)}
        if not kinds:
            return {}
        now = self._clock.now()
        reasons = {}
        for change in request.plan.changes:
            if change.ref.of != CRD or change.desired is None or defined_kind(change.desired) not in kinds:
                continue
            definition = live_object(request, change.ref, self._cluster, self._live)
            if definition is not None and may_be_outdated(definition, now):
                reasons[defined_kind(change.desired)] = f"{change.ref} to be in effect"
        return reasons

    def write(self, request: ApplyRequest, batch: Sequence[Change]) -> list[StepResult]:
        """Carry out steps that need not wait for each other, with their place in audit and inventory."""
        writes = self._writes.of(request.app.key)
        return writes.write(request, batch, lambda change: apply_change(request, change, self._cluster, self._live))


def _is_refused(result: StepResult) -> bool:
    """Whether the API server refused an object for its content or its version, which a definition decides about."""
    error = result.error
    # what is stored was accepted by the former definition: only the changed one finds that it does not fit
    return isinstance(error, Rejected) and error.code in _REFUSALS_BY_DEFINITION and not is_misfit(error)


def _is_premature(result: StepResult, kinds: Container[GroupKind]) -> bool:
    return result.change.ref.of in kinds and _is_refused(result)


def is_terminating(change: Change) -> bool:
    """Whether the step waits for an object that is being deleted already."""
    return change.action in (Action.PRUNE, Action.CREATE) and bool(
        metadata_of(change.live or {}).get("deletionTimestamp")
    )


def is_recreation(change: Change) -> bool:
    """Whether the step creates an object whose predecessor is still being deleted, and so cannot run yet."""
    return change.action is Action.CREATE and change.live is not None


def _recreation(request: ApplyRequest, results: Iterable[StepResult]) -> str:
    """Return which object has to be gone before it can be created again, empty when there is none."""
    leaving = [change.ref for change in request.plan.changes if is_recreation(change)]
    leaving += [
        result.change.ref
        for result in results
        if result.change.action is Action.REPLACE and metadata_of(result.live or {}).get("deletionTimestamp")
    ]
    return f"{leaving[0]} to be gone, to create it again" if leaving else ""


def _split(batch: Iterable[Change], failed: Sequence[Change]) -> tuple[list[Change], list[StepResult]]:
    """Return the steps that may run, and results for those whose foundation failed."""
    ready = []
    blocked = []
    for change in batch:
        culprit = next((other for other in failed if _depends(change, other)), None)
        if culprit is None:
            ready.append(change)
        else:
            blocked.append(StepResult(change, Outcome.FAILED, f"not tried: {culprit.ref} failed", is_blocked=True))
    return ready, blocked


def _depends(change: Change, other: Change) -> bool:
    if change.action is Action.PRUNE:
        # what replaces the pruned object may be what failed
        return other.action is not Action.PRUNE
    if change.waits_for == other.ref:
        return True
    # before the object itself: its namespace or definition must exist
    if other.ref.of == NAMESPACE:
        return change.ref.namespace == other.ref.name
    if other.ref.of == CRD and other.desired is not None:
        return change.ref.of == defined_kind(other.desired)
    return False


def unhealthy_wave(request: ApplyRequest, batch: Sequence[Change], cluster: Cluster, live: LiveCache) -> str:
    """
    Return which object of an earlier wave the batch waits for, empty when it may run.

    Objects of unknown health count as ready once they exist, and never while it is unknown whether they do.
    """
    stage = batch[0].stage
    wave = batch[0].wave
    earlier = (change for change in request.plan.changes if change.wave < wave and change.stage <= stage)
    return _unhealthy(request, earlier, cluster, live)


def missing_definitions(
    request: ApplyRequest, steps: Iterable[Change], cluster: Cluster, live: LiveCache
) -> dict[GroupKind, str]:
    """Return the kinds of steps whose definition, in the same plan, has to be established first, with the reason."""
    kinds = {change.ref.of for change in steps if change.action is not Action.PRUNE}
    reasons = {}
    for change in request.plan.changes:
        # most plans have no definition, and some have ten thousand objects: the cheap comparison is first
        if change.ref.kind != CRD.kind or change.ref.of != CRD or change.desired is None:
            continue
        of = defined_kind(change.desired)
        if of not in kinds:
            continue
        definition = live_object(request, change.ref, cluster, live)
        if definition is None or not is_established(definition) or not _is_served(change.desired, cluster):
            reasons[of] = f"{change.ref} to be established"
    return reasons


def _redefined(steps: Iterable[Change], results: Iterable[StepResult]) -> dict[GroupKind, str]:
    """
    Return the kinds of steps whose definition was written in this pass, with the reason to wait for the next one.

    The API server judges resources by the former definition for some milliseconds more, mostly (see
    ``may_be_outdated``), and the version by which a resource is read or deleted may be another one now.
    """
    kinds = {change.ref.of for change in steps}
    written = (result.change for result in results if result.outcome is Outcome.SUCCEEDED)
    definitions = (
        (defined_kind(change.desired), change.ref)
        for change in written
        if change.desired is not None and change.ref.of == CRD
    )
    return {of: f"{ref} to be in effect" for of, ref in definitions if of in kinds}


def _unhealthy(request: ApplyRequest, changes: Iterable[Change], cluster: Cluster, live: LiveCache) -> str:
    for change in changes:
        # an API group that does not answer hides whether it exists, and nothing may be built on that
        if change.unobserved:
            if change.desired is not None:
                return f"{change.ref} to be observed ({change.unobserved})"
            continue
        manifest = live_object(request, change.ref, cluster, live)
        if change.action is Action.PRUNE:
            if manifest is not None:
                return f"{change.ref} to be gone"
        elif change.desired is not None:
            if manifest is None and change.finished is None:
                return f"{change.ref} to exist"
            # a Job that its TTL removed was healthy or not when it ended; absence would count as Missing
            status = change.finished or request.health(change.ref, manifest or {})
            if status.health in (Health.PROGRESSING, Health.DEGRADED, Health.MISSING):
                reason = f" ({status.message})" if status.message else ""
                return f"{change.ref} to be healthy, which is {status.health.value}{reason}"
    return ""


def live_object(request: ApplyRequest, ref: ObjectRef, cluster: Cluster, live: LiveCache) -> Manifest | None:
    """Return the live object of a step from the local copies, None when it is absent or its kind is not served."""
    resource = cluster.resource(ref.group, request.versions[ref], ref.kind)
    return live.get(resource, ref.namespace, ref.name) if resource is not None else None


def _is_served(definition: Manifest, cluster: Cluster) -> bool:
    """Whether discovery lists every version: it does so a moment after Established."""
    of = defined_kind(definition)
    # a custom resource of any served version may follow, and each of them appears in discovery by itself
    return all(cluster.resource(of.group, version, of.kind) is not None for version in served_versions(definition))
