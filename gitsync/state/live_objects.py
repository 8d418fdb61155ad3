"""The live objects of Applications, and what they own, for readers: without secret values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from gitsync.errors import Refused
from gitsync.kube.parts import PART_KINDS
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import mask
from gitsync.ports import Cluster, LiveCache
from gitsync.state.views import Views

_DEPTH = 8
"""Levels of parts below an object: a cycle of owners must not hold a request."""


class LiveObjects:
    """Find live objects by Application, and parts by owner, in the local copies."""

    def __init__(self, cluster: Cluster, live: LiveCache, views: Views) -> None:
        self._cluster = cluster
        self._live = live
        self._views = views

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        """Return a live object of an Application, or a part of one, masked; None for any other."""
        view = self._views.application(key)
        if view is None:
            return None
        for resource in view.resources:
            manifest = self._live_object(resource.ref, resource.version)
            if resource.ref == ref:
                return mask(manifest) if manifest is not None else None
            if manifest is not None and ref.of in PART_KINDS:
                for part in self._parts(manifest):
                    if part["kind"] == ref.kind and part["metadata"]["name"] == ref.name:
                        return mask(part)
        return None

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that an object of an Application owns, masked."""
        manifest = self.live(key, ref)
        return self.owned_by(uid_of(manifest)) if manifest is not None else ()

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        return tuple(mask(part) for part in self._live.dependents(uid))

    def _live_object(self, ref: ObjectRef, version: str) -> Manifest | None:
        resource = self._cluster.resource(ref.group, version, ref.kind)
        with suppress(Refused):  # its namespace is not watched
            return self._live.get(resource, ref.namespace, ref.name) if resource is not None else None
        return None

    def _parts(self, manifest: Manifest, depth: int = _DEPTH) -> Iterator[Manifest]:
        for part in self._live.dependents(uid_of(manifest)) if depth else ():
            yield part
            yield from self._parts(part, depth - 1)
