"""Defects in a reconcile of an Agent or a system, reported in its status."""

from __future__ import annotations

from typing import Protocol

from gitsync.agents.status.build import defect_status
from gitsync.errors import GitsyncError
from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ref_of
from gitsync.operator.child_reconciler import ChildrenCache, Owner
from gitsync.ports import Clock
from gitsync.sync.status.defects import unexpected_error
from gitsync.sync.status.writer import StatusWriter


class OwnerReconciler(Protocol):
    """What reconciles one Agent or system."""

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile it; return the seconds until the next reconcile, None when only an event can change it."""
        ...


class ReportingReconciler:
    """Reconcile by another reconciler; its defects are in the log and in the status, and are retried."""

    def __init__(self, reconciler: OwnerReconciler, statuses: StatusWriter, clock: Clock) -> None:
        self._reconciler, self._statuses, self._clock = reconciler, statuses, clock

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile an Agent or system; raise UnexpectedError for an exception that no port declares."""
        try:
            return self._reconciler.reconcile(manifest, cache)
        except GitsyncError:
            raise
        except Exception as fault:
            defect = unexpected_error(fault, Owner.key_of(ref_of(manifest)))
            self._report(manifest, str(defect))
            raise defect from fault

    def _report(self, manifest: Manifest, message: str) -> None:
        before, now = manifest.get("status") or {}, timestamp(self._clock.now().timestamp())
        status = defect_status(manifest, message, now)
        if status != before:
            self._statuses.write(manifest, status)
