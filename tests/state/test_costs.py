"""What reconciles cost is kept by Application and by stage."""

from __future__ import annotations

from datetime import UTC, datetime

from gitsync.ports import Cost, EndedReconcile, Exemplar, Spent
from gitsync.runtime.work_costs import Interval
from gitsync.state.costs import QUEUE, Costs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def reconcile(*stages: tuple[str, float, float], is_partial: bool = False) -> EndedReconcile:
    """Return a reconcile of stages with their seconds and CPU seconds."""
    intervals = tuple(Interval(stage, 1.0, 1.0 + seconds, cpu) for stage, seconds, cpu in stages)
    return EndedReconcile("gitsync/a", NOW, intervals, is_partial=is_partial)


def test_reconciles_are_added_up_by_application() -> None:
    costs = Costs()
    costs.add(reconcile(("source", 0.5, 0.25), ("plan", 0.5, 0.25), ("plan", 0.5, 0.25)))
    costs.add(reconcile(("plan", 1.0, 0.5)))
    costs.add(reconcile(("changed", 0.25, 0.25), is_partial=True))
    costs.requests_of("gitsync/a").increment()
    found = costs.of("gitsync/a")
    assert (found.full, found.partial, found.requests, found.total) == (2, 1, 1, Spent(2.75, 1.5))
    assert found.stages["plan"] == Spent(2.0, 1.0)
    assert costs.of("gitsync/b") == Cost()
    assert Cost().total == Spent()


def test_a_deleted_application_leaves_only_the_distribution() -> None:
    costs = Costs()
    costs.add(reconcile(("plan", 0.0, 0.0)))
    costs.add(reconcile(("plan", 99.0, 0.0)))
    costs.waited(0.2)
    costs.requests_of("gitsync/a").increment()
    costs.forget("gitsync/a")
    assert costs.requests.value == 1
    assert costs.of("gitsync/a") == Cost()
    plan = costs.distributions()["plan"]
    assert (plan.counts[0], plan.counts[-1], sum(plan.counts), plan.seconds) == (1, 1, 2, 99.0)
    assert sum(costs.distributions()[QUEUE].counts) == 1


class Traces:
    """A sink that gives every reconcile a trace, by its number."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, done: EndedReconcile) -> str:
        self.count += 1
        return f"trace-{self.count}"


def test_each_bucket_has_the_last_reconcile_with_a_trace() -> None:
    costs = Costs(Traces())
    for seconds in (0.5, 0.5, 99.0):
        costs.add(reconcile(("plan", seconds, 0.0)))
    costs.waited(0.5)
    exemplars = costs.distributions()["plan"].exemplars
    ended = NOW.timestamp() + 1.0
    assert [exemplar for exemplar in exemplars if exemplar is not None] == [
        Exemplar("trace-2", 0.5, ended + 0.5),
        Exemplar("trace-3", 99.0, ended + 99.0),
    ]
    assert not any(costs.distributions()[QUEUE].exemplars)


def test_without_traces_there_are_no_exemplars() -> None:
    costs = Costs()
    costs.add(reconcile(("plan", 0.5, 0.0)))
    assert not any(costs.distributions()["plan"].exemplars)
