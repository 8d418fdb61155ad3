"""One object of an application, or a part of one such as a Pod: its manifests, relations and Pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.queries.references import references, selected_by, users_of

LOGGED = ("Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob")
"""Kinds with Pods, of which there are logs."""
_DEPTH = 3
"""Levels of owners from an object down to its Pods: CronJob, Job, Pod."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object of an application, or a part of one such as a Pod; ``item`` is None for a part."""

    app: ApplicationView
    ref: ObjectRef
    item: ResourceView | None
    live: Manifest | None

    @property
    def desired(self) -> Manifest | None:
        """The manifest that Git declares."""
        return self.item.change.desired if self.item is not None else None

    @property
    def manifest(self) -> Manifest:
        """The live manifest, else the one that Git declares."""
        return self.live or self.desired or {}


def related(subject: FoundObject) -> dict[str, Any]:
    """Return what an object uses, what it selects and what uses it."""
    others = subject.app.resources
    return {
        "uses": references(subject.ref, subject.manifest),
        "selects": selected_by(subject.ref, subject.manifest, others),
        "used": users_of(others).get(subject.ref, []),
    }


def pods_of(backend: Backend, subject: FoundObject) -> list[Manifest]:
    """Return the Pod itself, or the Pods that an object owns, by name."""
    if subject.live is None:
        return []
    found_pods = [item for item in _below(backend, subject.live, _DEPTH) if item.get("kind") == "Pod"]
    return sorted(found_pods, key=lambda item: ref_of(item).name)


def _below(backend: Backend, manifest: Manifest, depth: int) -> list[Manifest]:
    uid = uid_of(manifest)
    parts = backend.view.owned_by(uid) if uid and depth else ()
    return [manifest, *(item for part in parts for item in _below(backend, part, depth - 1))]
