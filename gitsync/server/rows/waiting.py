"""What a sync under way waits for, since when, what it holds up, and how to end the wait. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gitsync.objects.change import Action
from gitsync.objects.manifest import Manifest, at, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.formatting import visible

_DEEPEST = 3

Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class Deletion:
    """An object that is being deleted: since when (RFC 3339), what keeps it, and what ends the wait."""

    object: str
    path: str
    since: str
    kept_by: str
    way_out: str


def stuck_deletions(view: ApplicationView, owned: Owned) -> tuple[Deletion, ...]:
    """Return the objects that the plan deletes and that are still there because of finalizers."""
    return tuple(
        _deletion(item, view, owned)
        for item in view.resources
        if item.change.action is Action.PRUNE and metadata_of(item.change.live or {}).get("deletionTimestamp")
    )


def _deletion(item: ResourceView, view: ApplicationView, owned: Owned) -> Deletion:
    metadata = metadata_of(item.change.live or {})
    finalizers = ", ".join(map(str, metadata.get("finalizers") or ())) or "the API server"
    users = mounted_by(item, view, owned) if item.ref.kind == "PersistentVolumeClaim" else ()
    kept_by, way_out = f"finalizer {finalizers}", "the controller that owns the finalizer has to remove it"
    if users:
        kept_by = f"{finalizers}: still mounted by {', '.join(users)}"
        way_out = "remove or restart the workloads that mount it"
    return Deletion(
        visible(item.ref), item.ref.path, str(metadata["deletionTimestamp"]), visible(kept_by), visible(way_out)
    )


def mounted_by(item: ResourceView, view: ApplicationView, owned: Owned) -> tuple[str, ...]:
    """Return the Pods of the application that mount a claim."""
    pods = []
    for other in view.resources:
        if other.ref.namespace == item.ref.namespace and other.change.live is not None:
            pods += [part for part in _below(other.change.live, owned, _DEEPEST) if part.get("kind") == "Pod"]
    return tuple(f"Pod {ref_of(pod).name}" for pod in pods if item.ref.name in _claims(pod))


def _below(manifest: Manifest, owned: Owned, depth: int) -> Iterable[Manifest]:
    yield manifest
    for part in owned(uid_of(manifest)) if depth else ():
        yield from _below(part, owned, depth - 1)


def _claims(pod: Manifest) -> set[str]:
    volumes = at(pod, "spec", "volumes", default=[]) or []
    return {str(at(volume, "persistentVolumeClaim", "claimName", default="")) for volume in volumes}
