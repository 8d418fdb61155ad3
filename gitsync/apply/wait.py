"""What a batch must wait for: CRDs that are established and earlier waves that are healthy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitsync.apply.types import ApplyRequest
from gitsync.kube.kinds import CRD, defined_kind, is_established, served_versions
from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, LiveCache


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
        found = live_object(request, change.ref, cluster, live)
        if change.action is Action.PRUNE:
            if found is not None:
                return f"{change.ref} to be gone"
        elif change.desired is not None:
            if found is None and change.finished is None:
                return f"{change.ref} to exist"
            status = change.finished or request.health(change.ref, found or {})
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
    return all(cluster.resource(of.group, each, of.kind) is not None for each in served_versions(definition))
