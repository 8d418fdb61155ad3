"""What a batch has to wait for: foundations that exist, and earlier waves that are healthy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gitsync.apply.types import Job
from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.ports import Cluster, Live

NAMESPACE = GroupKind("", "Namespace")
DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def waits_for(job: Job, batch: Sequence[Change], cluster: Cluster, live: Live) -> str:
    """
    Return in words what the batch still waits for, empty when it may run.

    A batch waits for the definitions of its kinds, and for the health of everything in earlier waves. Objects whose
    health nobody can tell count as ready once they exist.
    """
    kinds = {change.ref.of for change in batch if change.action is not Action.PRUNE}
    for change in job.plan.changes:
        if change.ref.of == DEFINITION and change.desired is not None and defines(change.desired) in kinds:
            definition = look(job, change.ref, cluster, live)
            if definition is None or not is_established(definition) or not _is_served(change.desired, cluster):
                return f"{change.ref} to be established"
    stage, wave = batch[0].stage, batch[0].wave
    earlier = (c for c in job.plan.changes if (c.stage, c.wave) < (stage, wave) and c.wave < wave)
    return _unready(job, earlier, cluster, live)


def _unready(job: Job, changes: Iterable[Change], cluster: Cluster, live: Live) -> str:
    for change in changes:
        found = look(job, change.ref, cluster, live)
        if change.action is Action.PRUNE:
            if found is not None:
                return f"{change.ref} to be gone"
        elif change.desired is not None:
            if found is None:
                return f"{change.ref} to exist"
            status = job.health(change.ref, found)
            if status.health in (Health.PROGRESSING, Health.DEGRADED, Health.MISSING):
                reason = f" ({status.message})" if status.message else ""
                return f"{change.ref} to be healthy, which is {status.health.value}{reason}"
    return ""


def look(job: Job, ref: ObjectRef, cluster: Cluster, live: Live) -> Manifest | None:
    """Return the live object of a step from the local copies, None when it is absent or its kind is not served."""
    resource = cluster.resource(ref.group, job.versions[ref], ref.kind)
    return live.get(resource, ref.namespace, ref.name) if resource is not None else None


def defines(definition: Manifest) -> GroupKind:
    """Return the kind that a CustomResourceDefinition defines."""
    spec = definition.get("spec")
    return GroupKind(str(at(spec, "group", default="")), str(at(spec, "names", "kind", default="")))


def is_established(definition: Manifest) -> bool:
    """Whether the API server says that it serves the kind."""
    conditions = at(definition, "status", "conditions") or []
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)


def _is_served(definition: Manifest, cluster: Cluster) -> bool:
    """Whether discovery has every version: it comes a moment after Established."""
    of = defines(definition)
    versions = [v["name"] for v in at(definition, "spec", "versions", default=[]) if v.get("served", True)]
    return all(cluster.resource(of.group, version, of.kind) is not None for version in versions)
