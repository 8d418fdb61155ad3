"""Execute a plan as far as it goes now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitsync.apply.change import ApplyProgress, ApplyRequest, StepResult, apply_change
from gitsync.apply.owner_writes import NotAnswered, WritesByOwner, waiting_for_answers
from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind, is_established, served_versions
from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.order import batches
from gitsync.ports import Cluster, LiveCache, Ports


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
        self._writes = writes

    def execute(self, request: ApplyRequest) -> ApplyProgress:
        """
        Carry out the plan's batches in order until done, or until one has to wait.

        A failed object only blocks its dependents. Nothing is pruned in a pass in which an apply failed.
        """
        results: list[StepResult] = []
        for batch in batches(request.plan.changes):
            if waiting := blocking_reason(request, batch, self._cluster, self._live):
                return ApplyProgress(tuple(results), waiting=waiting)
            failed = [result.change for result in results if result.outcome is Outcome.FAILED]
            ready, blocked = _split(batch, failed)
            results += blocked
            written = self.write(request, [change for change in ready if not is_recreation(change)])
            results += [result for result in written if not isinstance(result.error, NotAnswered)]
            if waiting := waiting_for_answers(written):
                return ApplyProgress(tuple(results), waiting=waiting)
        return ApplyProgress(tuple(results), waiting=_recreation(request, results))

    def write(self, request: ApplyRequest, batch: Sequence[Change]) -> list[StepResult]:
        """Carry out steps that need not wait for each other, with their place in audit and inventory."""
        writes = self._writes.of(request.app.key)
        return writes.write(request, batch, lambda change: apply_change(request, change, self._cluster, self._live))


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
        return other.action is not Action.PRUNE
    if other.ref.of == NAMESPACE:
        return change.ref.namespace == other.ref.name
    if other.ref.of == CRD and other.desired is not None:
        return change.ref.of == defined_kind(other.desired)
    return False


def blocking_reason(request: ApplyRequest, batch: Sequence[Change], cluster: Cluster, live: LiveCache) -> str:
    """
    Return what the batch waits for, empty when it may run.

    A batch waits for the definitions of its kinds, and for the health of everything in earlier waves. Objects of
    unknown health count as ready once they exist, and never while it is unknown whether they do.
    """
    stage = batch[0].stage
    wave = batch[0].wave
    earlier = (c for c in request.plan.changes if c.wave < wave and c.stage <= stage)
    return missing_definition(request, batch, cluster, live) or _unhealthy(request, earlier, cluster, live)


def missing_definition(request: ApplyRequest, batch: Iterable[Change], cluster: Cluster, live: LiveCache) -> str:
    """Return which definition of the plan has to be established before the batch, empty when there is none."""
    kinds = {change.ref.of for change in batch if change.action is not Action.PRUNE}
    for change in request.plan.changes:
        if (
            change.ref.kind == CRD.kind
            and change.ref.of == CRD
            and change.desired is not None
            and defined_kind(change.desired) in kinds
        ):
            definition = live_object(request, change.ref, cluster, live)
            if definition is None or not is_established(definition) or not _is_served(change.desired, cluster):
                return f"{change.ref} to be established"
    return ""


def _unhealthy(request: ApplyRequest, changes: Iterable[Change], cluster: Cluster, live: LiveCache) -> str:
    for change in changes:
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
    return all(cluster.resource(of.group, version, of.kind) is not None for version in served_versions(definition))
