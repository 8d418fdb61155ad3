"""Writes that the API server has not answered yet: they end in their own threads, and hold no worker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass

from gitsync.apply.types import ApplyRequest, StepResult
from gitsync.errors import ClusterUnavailable
from gitsync.objects.change import Change
from gitsync.objects.record import Outcome
from gitsync.objects.ref import ObjectRef

_PATIENCE = 2.0
"""Seconds that a worker waits for the writes of a batch: most are answered within milliseconds."""


class NotAnswered(ClusterUnavailable):
    """The API server works on a write; its answer reconciles the Application again."""


@dataclass(frozen=True, slots=True)
class AnsweredWrite:
    """A write that was answered after its batch: its request, and its result."""

    job: ApplyRequest
    result: StepResult


class WritesInFlight:
    """
    Run writes in a pool, and keep those that are not answered in time, by Application and object.

    An Application is used by one worker at a time. ``on_answer`` is called with its key once all of its writes are
    answered, from the thread of the last one: a call for each would plan a large Application as often as it has
    objects.
    """

    def __init__(self, pool: Executor, on_answer: Callable[[str], None], patience: float = _PATIENCE) -> None:
        self._pool = pool
        self._on_answer = on_answer
        self._patience = patience
        self._writes: dict[str, dict[ObjectRef, tuple[ApplyRequest, Future[StepResult]]]] = {}
        self._unanswered: Counter[str] = Counter()
        self._batches: dict[str, frozenset[ObjectRef]] = {}
        """The objects of the batches that have unanswered writes."""
        self._lock = threading.Lock()

    def refs(self, application: str) -> frozenset[ObjectRef]:
        """Return the objects of an Application that are being written."""
        return frozenset(self._writes.get(application, ()))

    def is_writing(self, application: str, refs: AbstractSet[ObjectRef]) -> bool:
        """Whether all these objects are of batches whose writes have not all been answered and taken yet."""
        return refs <= self._batches.get(application, frozenset()) | self._writes.get(application, {}).keys()

    def run(
        self, job: ApplyRequest, changes: Sequence[Change], write: Callable[[Change], StepResult]
    ) -> list[StepResult]:
        """Run writes in parallel and return their results; of those that take longer, that they are not answered."""
        futures = [(change, self._pool.submit(write, change)) for change in changes]
        unanswered = wait((future for _, future in futures), self._patience).not_done
        late = {change.ref: (job, future) for change, future in futures if future in unanswered}
        self._keep(job.app.key, frozenset(change.ref for change in changes), late)
        return [not_answered(change) if change.ref in late else future.result() for change, future in futures]

    def take_answered(self, application: str) -> list[AnsweredWrite]:
        """Return the writes of an Application that were answered since the last call."""
        held = self._writes.get(application, {})
        done = {ref: held.pop(ref) for ref in list(held) if held[ref][1].done()}
        if not held:
            self._writes.pop(application, None)
        return [AnsweredWrite(job, future.result()) for job, future in done.values()]

    def _keep(
        self,
        application: str,
        batch: frozenset[ObjectRef],
        late: dict[ObjectRef, tuple[ApplyRequest, Future[StepResult]]],
    ) -> None:
        if late:
            self._writes.setdefault(application, {}).update(late)
            with self._lock:
                self._unanswered[application] += len(late)
                self._batches[application] = self._batches.get(application, frozenset()) | batch
            for _, future in late.values():
                future.add_done_callback(lambda done: self._count_answer(application))

    def _count_answer(self, application: str) -> None:
        with self._lock:
            self._unanswered[application] -= 1
            is_last = not self._unanswered[application]
            if is_last:
                del self._unanswered[application]
                self._batches.pop(application, None)
        if is_last:
            self._on_answer(application)


def not_answered(change: Change) -> StepResult:
    """Return the result of a write that is in flight."""
    error = NotAnswered("the API server has not answered yet", object=str(change.ref))
    return StepResult(change, Outcome.FAILED, str(error), error=error)


def waiting_for_answers(results: Iterable[StepResult]) -> str:
    """Return which write is in flight, empty when all are answered."""
    refs = [result.change.ref for result in results if isinstance(result.error, NotAnswered)]
    more = f" and {len(refs) - 1} more writes" if len(refs) > 1 else ""
    return f"the API server to answer the write of {refs[0]}{more}" if refs else ""
