"""Write the status of Applications: only when it changed, and never over somebody else's newer one."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gitsync.errors import ClusterUnavailable, Conflict, Rejected
from gitsync.objects.keys import API_VERSION, FINALIZER, POST_DELETE, PRE_DELETE, STATUS_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.ports import Cluster, LiveCache

_VERSION = API_VERSION.rpartition("/")[2]
_TRIES = 5
_OURS = (PRE_DELETE, FINALIZER, POST_DELETE)
"""Our finalizers, in the order in which they are taken off."""
_AGAIN = 30.0
"""Seconds until an Application whose status was refused, being too large or forbidden, is looked at again."""


class StatusWriter:
    """
    Store what is known of Applications in the objects themselves.

    A conflict is looked into: when only the rest of the object moved on, ours is written over it; when the status
    itself is not the one we based ours on, another controller wrote it, and Conflict is raised. A refusal passes for
    ClusterUnavailable: an Application is never given up because of its status.
    """

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live

    def write(self, manifest: Manifest, status: dict[str, Any]) -> Manifest:
        """Return the Application with this status; no request is made when it has it already."""
        before = manifest.get("status") or {}
        if before == status:
            return manifest
        current = manifest
        for _ in range(_TRIES):
            try:
                return self._replace({**current, "status": status}, "status")
            except Conflict as error:
                current = self._read(manifest)
                if (current.get("status") or {}) != before:
                    raise Conflict(
                        "another controller wrote the status", object=str(ref_of(manifest)), hint="it is read again"
                    ) from error
        raise Conflict("the Application changes faster than its status can be written", object=str(ref_of(manifest)))

    def set_finalizers(self, manifest: Manifest, wanted: Collection[str]) -> Manifest:
        """Return the Application with exactly these of our finalizers; one that is being deleted gets no new ones."""
        wanted = set(_OURS).intersection(wanted)
        for _ in range(_TRIES):
            finalizers = list(metadata_of(manifest).get("finalizers") or [])
            if metadata_of(manifest).get("deletionTimestamp"):
                wanted = wanted.intersection(finalizers)
            if set(_OURS).intersection(finalizers) == wanted:
                return manifest
            kept = [item for item in finalizers if item not in _OURS] + [item for item in _OURS if item in wanted]
            try:
                return self._replace({**manifest, "metadata": {**metadata_of(manifest), "finalizers": kept}}, "")
            except Conflict:
                manifest = self._read(manifest)
        raise Conflict("the Application changes faster than its finalizer can be set", object=str(ref_of(manifest)))

    def _replace(self, manifest: Manifest, subresource: str) -> Manifest:
        try:
            written = self._cluster.replace(manifest, manager=STATUS_MANAGER, subresource=subresource)
        except Rejected as error:
            if error.code == 404:
                raise  # it is gone, and with it all that was to be said of it
            raise ClusterUnavailable(
                f"the API server does not take what is known of it: {error.message}",
                object=str(ref_of(manifest)),
                hint=error.hint,
                retry_after=_AGAIN,
            ) from error
        resource = self._cluster.resource(ref_of(manifest).group, _VERSION, ref_of(manifest).kind)
        if resource is not None and not (
            metadata_of(written).get("deletionTimestamp") and not metadata_of(written).get("finalizers")
        ):
            self._live.observe_write(resource, written)
        return written

    def _read(self, manifest: Manifest) -> Manifest:
        current = self._cluster.read(ref_of(manifest), _VERSION)
        if current is None or metadata_of(current).get("uid") != metadata_of(manifest).get("uid"):
            raise Conflict("the Application is gone", object=str(ref_of(manifest)))
        return current
