"""What an Agent or system reports besides its status: Kubernetes Events, and defects of gitsync."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from gitsync.agents.budget import BUDGET_EXCEEDED, BUDGET_UNKNOWN, BudgetResult
from gitsync.agents.status import defect_status
from gitsync.errors import GitsyncError
from gitsync.kube.times import timestamp
from gitsync.objects.conditions import find_condition
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, content_hash, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.operator.child_reconciler import ChildrenCache
from gitsync.ports import Clock, Cluster
from gitsync.sync.status.report import unexpected_error
from gitsync.sync.status.writer import StatusWriter

_WARNINGS = {
    "Accepted": "False",
    "Stalled": "True",
    "ReferencesResolved": "False",
    "NetworkRestricted": "False",
    "ContractDrift": "True",
    "BehaviouralDrift": "True",
    BUDGET_EXCEEDED: "True",
}
_BUDGET_WARNINGS = (BudgetResult.NEAR.value, BUDGET_UNKNOWN)
_NORMAL = {"Ready": "True", "Validated": "True"}


class EventRecorder:
    """Write Events; an Event that cannot be written is dropped, since it is only information."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def record(self, manifest: Manifest, status: Mapping[str, Any], now: datetime) -> None:
        """Write an Event for each condition that now has the status that is worth one."""
        for kind, reason, message in _changes(manifest.get("status") or {}, status):
            try:
                self._cluster.apply(_event(manifest, kind, reason, message, now), manager=AGENTS_MANAGER)
            # lost: this Event and those after it; the status has the same messages
            except GitsyncError:
                return


def _changes(previous: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield type, reason and message of the Events of a status change."""
    for kind, expected in {**_WARNINGS, **_NORMAL}.items():
        old = find_condition(previous, kind)
        new = find_condition(status, kind)
        # reason and status: a message with a counter would be news in each pass
        is_news = (new.get("status"), new.get("reason")) != (old.get("status"), old.get("reason"))
        # A budget is news before it is exceeded, and where it cannot be checked.
        is_warning = new.get("status") == expected or new.get("reason") in _BUDGET_WARNINGS
        if is_news and is_warning:
            yield "Warning" if kind in _WARNINGS else "Normal", str(new["reason"]), str(new.get("message", ""))
    old_revision = previous.get("updateRevision")
    new_revision = status.get("updateRevision")
    if new_revision and old_revision != new_revision:
        yield "Normal", "NewRevision", f"the spec describes revision {new_revision}"


def _event(manifest: Manifest, kind: str, reason: str, message: str, now: datetime) -> Manifest:
    meta = metadata_of(manifest)
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    # the time is in the name: the same news a day later is another Event
    suffix = content_hash([uid_of(manifest), reason, message, time])[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name']}.{suffix}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"],
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": uid_of(manifest),
        },
        "type": kind,
        "reason": reason,
        # an Event of events.k8s.io/v1 has at most 1,024 bytes of text
        "message": message[:1024] or reason,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": AGENTS_MANAGER},
    }


class OwnerReconciler(Protocol):
    """What reconciles one Agent or system."""

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile it; return the seconds until the next reconcile, None when only an event can change it."""
        ...


class ReportingReconciler:
    """Reconcile by another reconciler; its defects are in the log and in the status, and are retried."""

    def __init__(self, reconciler: OwnerReconciler, statuses: StatusWriter, clock: Clock) -> None:
        self._reconciler = reconciler
        self._statuses = statuses
        self._clock = clock

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile an Agent or system; raise UnexpectedError for an exception that no port declares."""
        try:
            return self._reconciler.reconcile(manifest, cache)
        # a declared error needs no report of its own: the queue retries or the status has it
        except GitsyncError:
            raise
        except Exception as fault:
            defect = unexpected_error(fault, str(OwnerKey.of_ref(ref_of(manifest))))
            self._report(manifest, str(defect))
            raise defect from fault

    def _report(self, manifest: Manifest, message: str) -> None:
        previous = manifest.get("status") or {}
        now = timestamp(self._clock.now().timestamp())
        status = defect_status(manifest, message, now)
        if status != previous:
            self._statuses.write(manifest, status)
