"""
The writes of one owner (an Application, an Agent, a system or an ApplicationSet), and which of them are unresolved.

A write is **unresolved** from its intent in the audit until its outcome there. Usually that takes milliseconds. It
takes longer where the API server answers later than a worker waits: the write is still **running** then. It takes until
a later reconcile where the response was lost, and where the process ended in between.

Each reconcile of an owner calls ``take`` first, for the answers that arrived meanwhile, then ``resolve``, once it
knows what the cluster has, and then ``write``. ``conclude`` does the first two where no plan follows, since the owner
is gone.

Owners of several replicas may write one object for the first time at once, and what a replica knows of the others
arrives late. They share the audit, whose links have one order: the owner with the earliest unresolved intent writes,
and the others fail, see ``_check_rivals``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from gitsync.apply.change import ApplyRequest, StepResult
from gitsync.errors import ClusterUnavailable, Conflict, GitsyncError, RecordUnavailable
from gitsync.kube.kinds import CRD
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.keys import HOOK_RUN
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of, uid_of
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import to_record
from gitsync.plan.tracking import owner_of
from gitsync.ports import Ports

_PATIENCE = 2.0
"""Seconds that a worker waits for the writes of a batch: most are answered within milliseconds."""
_log = logging.getLogger(__name__)


class NotAnswered(ClusterUnavailable):
    """The API server works on a write; its answer reconciles the owner again."""


@dataclass(frozen=True, slots=True)
class AnsweredWrite:
    """A write that was answered after its batch: its request, and its result."""

    request: ApplyRequest
    result: StepResult


@dataclass(frozen=True, slots=True)
class WritePool:
    """
    Where writes run: ``executor`` runs them in parallel, for all owners together.

    ``on_answer`` is called with an owner once all its running writes are answered, from the thread of the last one: a
    call for each would plan a large Application as often as it has objects. ``may_write`` is whether this replica is
    still the one that writes. ``is_current`` is whether it is known what another Application, by its key, declares now;
    None where no other process writes.
    """

    executor: Executor
    on_answer: Callable[[str], None]
    may_write: Callable[[], bool] = lambda: True
    patience: float = _PATIENCE
    is_current: Callable[[str], bool] | None = None
    is_only_writer: bool = False
    """Whether no other process writes for these owners."""


@dataclass(slots=True)
class _Running:
    """The running writes of one owner by object, and the objects of the batches that they belong to."""

    writes: dict[ObjectRef, tuple[ApplyRequest, Future[StepResult]]] = field(default_factory=dict)
    unanswered: int = 0
    batches: frozenset[ObjectRef] = frozenset()


class OwnerWrites:
    """The writes of one owner; one worker at a time uses it."""

    def __init__(self, owner: str, ports: Ports, pool: WritePool, *, may_lack_outcomes: bool = True) -> None:
        self._owner = owner
        self._cluster = ports.cluster
        self._records = ports.records
        self._clock = ports.clock
        self._pool = pool
        self._running = _Running()
        self._lock = threading.Lock()  # answers come from the threads of the pool
        self._may_lack_outcomes = may_lack_outcomes  # of the process before this one, until the audit was read

    @property
    def running(self) -> frozenset[ObjectRef]:
        """The objects whose writes are not answered, or whose answers are not taken yet."""
        return frozenset(self._running.writes)

    @property
    def are_resolved(self) -> bool:
        """Whether the audit has the outcome of every write."""
        return not self._may_lack_outcomes and not self._running.writes

    def is_writing(self, refs: AbstractSet[ObjectRef]) -> bool:
        """Whether all these objects are of batches whose writes have not all been answered and taken yet."""
        return refs <= self._running.batches | self._running.writes.keys()

    def take(self) -> list[AnsweredWrite]:
        """Return the running writes that were answered since the last call, with their outcomes in the audit."""
        writes = self._running.writes
        answered = [ref for ref, (_, future) in writes.items() if future.done()]
        taken = [AnsweredWrite(request, future.result()) for request, future in map(writes.pop, answered)]
        if taken:
            had_unresolved = self._may_lack_outcomes
            self._audit_outcomes([(write.request, write.result) for write in taken], had_unresolved=had_unresolved)
        return taken

    def resolve(
        self, plan: Plan, live: Mapping[ObjectRef, Manifest], unobserved: AbstractSet[ObjectRef] = frozenset()
    ) -> None:
        """
        Audit an outcome for the unresolved writes, from what was observed; running and unobserved objects have to wait.

        An apply succeeded when the object exists and the plan would not repeat it. A delete succeeded when the object
        is absent or terminating, a hook when it has the mark of its sync.
        """
        if not self._may_lack_outcomes:
            return
        waiting = self.running | unobserved
        intents = [
            # not those of running writes: an outcome from the cluster would contradict the answer that is still to come
            intent
            for intent in self._records.unresolved(self._owner)
            if ObjectRef.from_path(intent.resource) not in waiting
        ]
        if intents:
            now = self._clock.now()
            self._records.audit(_resolved(intent, _has_taken_effect(intent, plan, live), now) for intent in intents)
        self._may_lack_outcomes = bool(unobserved)

    def conclude(self) -> bool:
        """
        Audit an outcome for the unresolved writes of an owner that does not exist any more, or is about to.

        No plan for it follows, so each written object is read: it exists, or it does not. Return False while writes
        are running.
        """
        self.take()
        self.distrust()
        running = self.running
        refs = {ObjectRef.from_path(intent.resource) for intent in self._records.unresolved(self._owner)} - running
        manifests = {ref: self._read(ref) for ref in refs}
        live = {ref: manifest for ref, manifest in manifests.items() if manifest is not None}
        # an empty plan: no step repeats a write, so that existence alone decides
        self.resolve(Plan(self._owner, "", (), "", Risk.SAFE), live)
        return not running

    def write(
        self, request: ApplyRequest, batch: Sequence[Change], perform: Callable[[Change], StepResult]
    ) -> list[StepResult]:
        """
        Carry out steps that need not wait for each other: intents, then inventory, then writes, then outcomes.

        The result of a write that is not answered in time, or whose object is being written already, has the error
        NotAnswered; ``take`` returns its real result later. RecordUnavailable stops before, or after, the writes.
        """
        running = self.running
        due = [change for change in batch if change.ref not in running]
        waiting = [_not_answered(change) for change in batch if change.ref in running]
        return waiting + (self._write(request, due, perform) if due else [])

    def _write(
        self, request: ApplyRequest, batch: Sequence[Change], perform: Callable[[Change], StepResult]
    ) -> list[StepResult]:
        # a replica that was frozen may wake after its Lease has passed to another one
        if not self._pool.may_write():
            raise Conflict("another replica may be leading by now", hint="nothing more is written here")
        had_unresolved = self._may_lack_outcomes
        self._may_lack_outcomes = True  # and stays so where audit, inventory or a write raises on the way
        # before anything is written: without its intent no write is made
        self._records.audit(self._record(request, change, Outcome.INTENDED, change.reason) for change in batch)
        # after the intent and before the write: only what the inventory has is ever pruned
        request.widen_inventory(
            {change.ref: _inventory_entry(request, change) for change in batch if change.action is not Action.PRUNE}
        )
        rivals = self._earlier_rivals(request, batch)

        def perform_first(change: Change) -> StepResult:
            try:
                self._check_rivals(request, change, rivals.get(change.ref, ""))
            except GitsyncError as error:
                return StepResult(change, Outcome.FAILED, str(error), error=error)
            return perform(change)

        results = self._run(request, batch, perform_first if self._pool.is_current is not None else perform)
        answered = [(request, result) for result in results if not isinstance(result.error, NotAnswered)]
        self._audit_outcomes(answered, had_unresolved=had_unresolved)
        return results

    def _earlier_rivals(self, request: ApplyRequest, batch: Sequence[Change]) -> dict[ObjectRef, str]:
        """Return the objects of first writes that others have earlier unresolved intents for, and which owner has."""
        paths = {change.ref.path: change.ref for change in batch if _is_first_write(request, change)}
        if self._pool.is_current is None or not paths:
            return {}
        first: dict[str, str] = {}
        for intent in self._records.unresolved():  # oldest first, and our own are among them
            if intent.resource in paths:
                first.setdefault(intent.resource, intent.application)
        return {paths[path]: owner for path, owner in first.items() if owner != self._owner}

    def _check_rivals(self, request: ApplyRequest, change: Change, rival: str) -> None:
        """
        Raise Conflict where an owner of another replica writes an object, or wrote it since this step was planned.

        Called after the intents. A rival with a later intent finds ours; the write of one with an earlier intent has
        ended where its outcome is in the audit, so that a read shows it.
        """
        if not _is_first_write(request, change):
            return
        if rival:
            raise Conflict(f"{rival} writes it at this moment", object=str(change.ref), hint="it is planned again")
        live = self._cluster.read(change.ref, request.versions[change.ref]) or {}
        holder = owner_of(live)
        if holder != owner_of(change.live or {}):
            raise Conflict(f"{holder or 'another client'} has written it", object=str(change.ref))
        # one that gave it up declares it no more; the watch that tells what it declares may be late
        if holder and self._pool.is_current is not None and not self._pool.is_current(holder):
            raise Conflict(f"it is not known yet whether {holder} still declares it", object=str(change.ref))

    def _run(
        self, request: ApplyRequest, batch: Sequence[Change], perform: Callable[[Change], StepResult]
    ) -> list[StepResult]:
        """Run writes in parallel; those that take longer than the patience of a worker keep running."""
        futures = [(change, self._pool.executor.submit(perform, change)) for change in batch]
        late_futures = wait((future for _, future in futures), self._pool.patience).not_done
        late = {change.ref: (request, future) for change, future in futures if future in late_futures}
        if late:
            self._keep_running(frozenset(change.ref for change in batch), late)
        return [_not_answered(change) if change.ref in late else future.result() for change, future in futures]

    def _keep_running(
        self, batch: frozenset[ObjectRef], late: Mapping[ObjectRef, tuple[ApplyRequest, Future[StepResult]]]
    ) -> None:
        self._running.writes.update(late)
        with self._lock:
            self._running.unanswered += len(late)
            self._running.batches |= batch
        # only now: the callback of a future that has ended meanwhile is called at once, and counts down
        for _, future in late.values():
            future.add_done_callback(lambda answered: self._count_answer())

    def _count_answer(self) -> None:
        with self._lock:
            self._running.unanswered -= 1
            is_last = not self._running.unanswered
            if is_last:
                self._running.batches = frozenset()
        if is_last:
            self._pool.on_answer(self._owner)

    def _audit_outcomes(self, written: Sequence[tuple[ApplyRequest, StepResult]], *, had_unresolved: bool) -> None:
        """Audit and log the outcomes of writes; those whose response was lost remain unresolved."""
        self._may_lack_outcomes = True  # and stays so where the audit fails
        for request, result in written:
            request.on_result(result)
        self._records.audit(
            replace(
                self._record(request, result.change, result.outcome, result.message), duration_ms=result.duration_ms
            )
            for request, result in written
            if not result.is_unknown
        )
        self._may_lack_outcomes = had_unresolved or any(result.is_unknown for _, result in written)
        for request, result in written:
            _log_result(request, result)
        # before the next plan: its kinds and schemas may be other ones now
        if any(result.change.ref.of == CRD for _, result in written):
            self._cluster.definitions_changed()

    def _record(self, request: ApplyRequest, change: Change, outcome: Outcome, message: str) -> AuditRecord:
        return AuditRecord(
            application=self._owner,
            action=change.action.value,
            resource=change.ref.path,
            outcome=outcome,
            timestamp=self._clock.now(),
            sync=request.sync,
            reasoning=change.reason,
            plan_steps=len(request.plan.writes),
            risk_level=change.risk.value,
            commit=request.commit.id,
            author=request.commit.author,
            approver=request.approver,
            digest=request.plan.digest,
            message=message,
            details=_details(request, change) if outcome is Outcome.INTENDED else {},
        )

    def distrust(self) -> None:
        """Read the audit again before the next write: another replica may have written for the owner."""
        self._may_lack_outcomes = True

    def _read(self, ref: ObjectRef) -> Manifest | None:
        resource = self._cluster.any_version(ref.of)
        return self._cluster.read(ref, resource.version) if resource is not None else None


class WritesByOwner:
    """The writes of all owners; see ``OwnerWrites``. Any thread may call it."""

    def __init__(self, ports: Ports, pool: WritePool) -> None:
        self._ports = ports
        self._pool = pool
        self._owners: dict[str, OwnerWrites] = {}
        self._lock = threading.Lock()
        self._suspects: frozenset[str] | None = None
        """The owners that may have unresolved writes of the process before this one, None until the audit was read."""

    def of(self, owner: str) -> OwnerWrites:
        """Return the writes of an owner, by its key."""
        writes = self._owners.get(owner)
        if writes is None:
            is_suspect = self._is_suspect(owner)
            new_writes = OwnerWrites(owner, self._ports, self._pool, may_lack_outcomes=is_suspect)
            writes = self._owners.setdefault(owner, new_writes)
        return writes

    def _is_suspect(self, owner: str) -> bool:
        """Whether the audit has to be read for an owner: where no other process writes, one query for all tells it."""
        if not self._pool.is_only_writer:
            return True
        with self._lock:
            if self._suspects is None:
                try:
                    self._suspects = self.unresolved_owners()
                except RecordUnavailable:  # the reconcile reads it again, and reports what is wrong
                    return True
            return owner in self._suspects

    def unresolved_owners(self) -> frozenset[str]:
        """Return the owners with unresolved writes, also those that no event follows for, since they were deleted."""
        return frozenset(intent.application for intent in self._ports.records.unresolved())

    def forget(self, owner: str) -> None:
        """Drop what is known of an owner that is gone, or that another replica writes for; running writes stay."""
        writes = self._owners.get(owner)
        if writes is None:
            return
        writes.distrust()
        with self._lock:
            # the query was made at the start, and the owner has written since
            self._suspects = None if self._suspects is None else self._suspects | {owner}
        # kept while writes run: their answers must be taken from it, and not from a new one that lacks them
        if not writes.running:
            del self._owners[owner]


def waiting_for_answers(results: Iterable[StepResult]) -> str:
    """Return which write is running, empty when all are answered."""
    refs = [result.change.ref for result in results if isinstance(result.error, NotAnswered)]
    more = f" and {len(refs) - 1} more writes" if len(refs) > 1 else ""
    return f"the API server to answer the write of {refs[0]}{more}" if refs else ""


def _not_answered(change: Change) -> StepResult:
    error = NotAnswered("the API server has not answered yet", object=str(change.ref))
    return StepResult(change, Outcome.FAILED, str(error), error=error)


def _is_first_write(request: ApplyRequest, change: Change) -> bool:
    """Whether a step writes an object that does not have the mark of its Application yet."""
    app = request.app
    # children of Agents have no such mark: the operator reports objects of their names that are not theirs
    is_apply = change.action not in (Action.PRUNE, Action.RELEASE) and not app.owns_by_reference
    return is_apply and owner_of(change.live or {}) != app.key


def _inventory_entry(request: ApplyRequest, change: Change) -> InventoryEntry:
    """Return what the inventory is to know of an object before it is written; a hook is another one each time."""
    is_same = change.live is not None and change.action is not Action.HOOK
    # a hook is created again for each sync, so that the uid of the last one is not that of the object to be written
    return InventoryEntry(request.versions[change.ref], uid_of(change.live or {}) if is_same else "")


def _has_taken_effect(intent: AuditRecord, plan: Plan, observed: Mapping[ObjectRef, Manifest]) -> bool:
    ref = ObjectRef.from_path(intent.resource)
    live = observed.get(ref)
    if intent.action == Action.PRUNE.value:
        return live is None or bool(metadata_of(live).get("deletionTimestamp"))
    if intent.action == Action.HOOK.value:
        return live is not None and annotations_of(live).get(HOOK_RUN, "").startswith(intent.sync)
    return live is not None and all(change.ref != ref for change in plan.outstanding)


def _details(request: ApplyRequest, change: Change) -> dict[str, Any]:
    """Return what only the intent of a write says: its differences, and what a record of its sync has to name."""
    recorded = {"trigger": request.trigger, "by": request.initiator} if request.trigger else {}
    return {"differences": to_record(change), **recorded}


def _resolved(intent: AuditRecord, is_done: bool, now: datetime) -> AuditRecord:
    return replace(
        intent,
        outcome=Outcome.SUCCEEDED if is_done else Outcome.FAILED,
        timestamp=now,
        message=f"its outcome was not known at first; found {'done' if is_done else 'not done'} afterwards",
        details={},
    )


def _log_result(request: ApplyRequest, result: StepResult) -> None:
    fields = {"application": request.app.key, "revision": request.commit.id, "ref": result.change.ref.path}
    level = logging.WARNING if result.outcome is Outcome.FAILED else logging.INFO
    _log.log(level, "%s %s: %s", result.change.action.value, result.outcome.value, result.message, extra=fields)
