"""Execute a plan as far as it goes now."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gitsync.apply.change import apply_change
from gitsync.apply.in_flight import AnsweredWrite, NotAnswered, WritesInFlight, not_answered, waiting_for_answers
from gitsync.apply.open_writes import resolve_open_writes
from gitsync.apply.types import ApplyProgress, ApplyRequest, StepResult
from gitsync.apply.wait import blocking_reason
from gitsync.errors import Conflict
from gitsync.kube.kinds import CRD, NAMESPACE, defined_kind
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import to_record
from gitsync.plan.order import batches
from gitsync.ports import Ports

_log = logging.getLogger(__name__)


class Applier:
    """
    Execute plans, up to ``pool`` writes at a time for all applications together.

    Before a batch is written, its intents are in the audit and its objects in the inventory; after it, its outcomes
    are in the audit. So a crash at any moment leaves no unrecorded write. A write whose response was lost has no
    outcome yet: the next plan resolves it. RecordUnavailable stops everything.

    A write that is not answered in time ends without the worker: its result is that it is not answered, its outcome
    is audited by ``take_answered`` in a later reconcile, and until then its object is not written again.
    """

    def __init__(self, ports: Ports, in_flight: WritesInFlight, may_write: Callable[[], bool] = lambda: True) -> None:
        self._cluster = ports.cluster
        self._live = ports.live
        self._records = ports.records
        self._clock = ports.clock
        self._in_flight = in_flight
        self._may_write = may_write

    def execute(self, job: ApplyRequest) -> ApplyProgress:
        """
        Carry out the plan's batches in order until done, or until one has to wait.

        A failed object only blocks its dependents. Nothing is pruned in a pass in which an apply failed.
        """
        results: list[StepResult] = []
        for batch in batches(job.plan.changes):
            if waiting := blocking_reason(job, batch, self._cluster, self._live):
                return ApplyProgress(tuple(results), waiting=waiting)
            failed = [result.change for result in results if result.outcome is Outcome.FAILED]
            ready, blocked = _split(batch, failed)
            results += blocked
            written = self.write(job, [change for change in ready if not is_recreation(change)])
            results += [result for result in written if not isinstance(result.error, NotAnswered)]
            if waiting := waiting_for_answers(written):
                return ApplyProgress(tuple(results), waiting=waiting)
        return ApplyProgress(tuple(results), waiting=_recreation(job, results))

    def write(self, job: ApplyRequest, batch: Sequence[Change]) -> list[StepResult]:
        """Carry out steps that need not wait for each other, with their place in audit and inventory."""
        busy = self._in_flight.refs(job.app.key)
        due = [change for change in batch if change.ref not in busy]
        return [not_answered(change) for change in batch if change.ref in busy] + self._write(job, due)

    def in_flight(self, application: str) -> frozenset[ObjectRef]:
        """Return the objects of an Application whose writes are not answered yet."""
        return self._in_flight.refs(application)

    def is_writing(self, application: str, refs: frozenset[ObjectRef]) -> bool:
        """Whether all these objects are of batches whose writes have not all been answered and taken yet."""
        return self._in_flight.is_writing(application, refs)

    def take_answered(self, application: str) -> list[AnsweredWrite]:
        """Return the writes of an Application that were answered late, with their outcomes in the audit."""
        answered = self._in_flight.take_answered(application)
        self._audit_outcomes((each.job, each.result) for each in answered)
        return answered

    def conclude(self, application: str) -> bool:
        """
        Audit an outcome for the writes that have none of an Application that does not exist any more.

        No plan for it follows, so each written object is read: it exists, or it does not. Return False while writes
        are not answered.
        """
        self.take_answered(application)
        busy = self._in_flight.refs(application)
        refs = {ObjectRef.from_path(intent.resource) for intent in self._records.unfinished(application)} - busy
        live = {ref: found for ref in refs if (found := self._read(ref)) is not None}
        resolve_open_writes(self._records, Plan(application, "", (), "", Risk.SAFE), live, self._clock.now(), busy)
        return not busy

    def _read(self, ref: ObjectRef) -> Manifest | None:
        resource = self._cluster.any_version(ref.of)
        return self._cluster.read(ref, resource.version) if resource is not None else None

    def _write(self, job: ApplyRequest, batch: Sequence[Change]) -> list[StepResult]:
        if not batch:
            return []
        if not self._may_write():
            raise Conflict("another replica may be leading by now", hint="nothing more is written here")
        self._records.audit(self._audit(job, change, Outcome.INTENDED, change.reason) for change in batch)
        job.widen_inventory(
            {change.ref: _inventory_entry(job, change) for change in batch if change.action is not Action.PRUNE}
        )
        results = self._in_flight.run(job, batch, lambda change: apply_change(job, change, self._cluster, self._live))
        self._audit_outcomes((job, result) for result in results if not isinstance(result.error, NotAnswered))
        return results

    def _audit_outcomes(self, written: Iterable[tuple[ApplyRequest, StepResult]]) -> None:
        """Audit and log the outcomes of writes, except those that are not known."""
        written = tuple(written)
        for job, result in written:
            job.on_result(result)
        self._records.audit(
            replace(self._audit(job, result.change, result.outcome, result.message), duration_ms=result.duration_ms)
            for job, result in written
            if not result.is_unknown
        )
        for job, result in written:
            _log_result(job, result)
        if any(result.change.ref.of == CRD for _, result in written):
            self._cluster.definitions_changed()

    def _audit(self, job: ApplyRequest, change: Change, outcome: Outcome, message: str) -> AuditRecord:
        return AuditRecord(
            application=job.app.key,
            action=change.action.value,
            resource=change.ref.path,
            outcome=outcome,
            timestamp=self._clock.now(),
            sync=job.sync,
            reasoning=change.reason,
            plan_steps=len(job.plan.writes),
            risk_level=change.risk.value,
            commit=job.commit.id,
            author=job.commit.author,
            approver=job.approver,
            digest=job.plan.digest,
            message=message,
            details={"differences": to_record(change)} if outcome is Outcome.INTENDED else {},
        )


def _inventory_entry(job: ApplyRequest, change: Change) -> InventoryEntry:
    """Return what the inventory is to know of an object before it is written; a hook is another one each time."""
    is_same = change.live is not None and change.action is not Action.HOOK
    return InventoryEntry(job.versions[change.ref], uid_of(change.live or {}) if is_same else "")


def _log_result(job: ApplyRequest, result: StepResult) -> None:
    fields = {"application": job.app.key, "revision": job.commit.id, "ref": result.change.ref.path}
    level = logging.WARNING if result.outcome is Outcome.FAILED else logging.INFO
    _log.log(level, "%s %s: %s", result.change.action.value, result.outcome.value, result.message, extra=fields)


def is_recreation(change: Change) -> bool:
    """Whether the step creates an object whose predecessor is still being deleted, and so cannot run yet."""
    return change.action is Action.CREATE and change.live is not None


def _recreation(job: ApplyRequest, results: Iterable[StepResult]) -> str:
    """Return which object has to be gone before it can be created again, empty when there is none."""
    leaving = [change.ref for change in job.plan.changes if is_recreation(change)]
    leaving += [
        result.change.ref
        for result in results
        if result.change.action is Action.REPLACE and metadata_of(result.live or {}).get("deletionTimestamp")
    ]
    return f"{leaving[0]} to be gone, to create it again" if leaving else ""


def _split(batch: Iterable[Change], failed: Sequence[Change]) -> tuple[list[Change], list[StepResult]]:
    """Return the steps that may run, and results for those whose foundation failed."""
    ready, blocked = [], []
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
