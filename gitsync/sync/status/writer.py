"""Write the status of Applications: only when it changed, and never over a newer status."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gitsync.errors import OUTAGE_PAUSE, ClusterUnavailable, Conflict, Rejected
from gitsync.objects.keys import API_VERSION, FINALIZER, POST_DELETE, PRE_DELETE, STATUS_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.ports import Cluster, LiveCache

_VERSION = API_VERSION.rpartition("/")[2]
_TRIES = 5
_OURS = (PRE_DELETE, FINALIZER, POST_DELETE)
"""Our finalizers, in the order in which they are removed."""


class StatusWriter:
    """
    Write status and finalizers of Applications.

    After a conflict the status is written again where only the rest of the object changed; raise Conflict where the
    status is not the expected one, since another controller wrote it. A rejected status is raised as
    ClusterUnavailable, which is retried.
    """

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live

    def write(self, manifest: Manifest, status: dict[str, Any]) -> Manifest:
        """Return the Application with this status; no request is made when it has it already."""
        previous_status = manifest.get("status") or {}
        if previous_status == status:
            return manifest
        current = manifest
        for _ in range(_TRIES):
            try:
                return self._replace({**current, "status": status}, "status")
            except Conflict as error:
                current = self._read(manifest)
                # the caller's status was built from another one, so that writing it would undo what is new in this one
                if (current.get("status") or {}) != previous_status:
                    raise Conflict(
                        "another controller wrote the status", object=str(ref_of(manifest)), hint="it is read again"
                    ) from error
        raise Conflict(
            f"gave up after {_TRIES} conflicts while updating the Application status", object=str(ref_of(manifest))
        )

    def set_finalizers(self, manifest: Manifest, wanted: Collection[str]) -> Manifest:
        """Return the Application with exactly these of our finalizers; a terminating one gets no new ones."""
        wanted = set(_OURS).intersection(wanted)
        for _ in range(_TRIES):
            finalizers = list(metadata_of(manifest).get("finalizers") or [])
            if metadata_of(manifest).get("deletionTimestamp"):
                wanted = wanted.intersection(finalizers)
            if set(_OURS).intersection(finalizers) == wanted:
                return manifest
            # ours last, in the order of removal; those of others keep their place
            kept = [item for item in finalizers if item not in _OURS] + [item for item in _OURS if item in wanted]
            try:
                return self._replace({**manifest, "metadata": {**metadata_of(manifest), "finalizers": kept}}, "")
            except Conflict:
                manifest = self._read(manifest)
        raise Conflict(
            f"gave up after {_TRIES} conflicts while updating the finalizers of the Application",
            object=str(ref_of(manifest)),
        )

    def _replace(self, manifest: Manifest, subresource: str) -> Manifest:
        try:
            written = self._cluster.replace(manifest, manager=STATUS_MANAGER, subresource=subresource)
        except Rejected as error:
            if error.code == 404:
                raise  # the Application was deleted; there is nothing to update
            raise ClusterUnavailable(
                f"the API server rejected the status update: {error.message}",
                object=str(ref_of(manifest)),
                hint=error.hint,
                retry_after=OUTAGE_PAUSE,
            ) from error
        # the view of the Application has this status already: a second one takes kilobytes for each of them
        status = manifest.get("status")
        if status is not None and written.get("status") == status:
            written["status"] = status
        resource = self._cluster.resource(ref_of(manifest).group, _VERSION, ref_of(manifest).kind)
        # removing the last finalizer of a terminating object deletes it: stored as a copy, it would seem to exist
        if resource is not None and not (
            metadata_of(written).get("deletionTimestamp") and not metadata_of(written).get("finalizers")
        ):
            self._live.observe_write(resource, written)
        return written

    def _read(self, manifest: Manifest) -> Manifest:
        current = self._cluster.read(ref_of(manifest), _VERSION)
        # a new Application of the same name has a status of its own
        if current is None or metadata_of(current).get("uid") != metadata_of(manifest).get("uid"):
            raise Conflict("the Application is gone", object=str(ref_of(manifest)))
        return current
