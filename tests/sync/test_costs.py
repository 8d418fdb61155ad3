"""What reconciles cost is kept by Application and by stage."""

from __future__ import annotations

from gitsync.ports import BOUNDS, Cost, Spent
from gitsync.sync.costs import QUEUE, Costs


def test_reconciles_are_added_up_by_application() -> None:
    costs = Costs()
    costs.add("gitsync/a", {"source": (0.5, 0.25), "plan": (1.0, 0.5)})
    costs.add("gitsync/a", {"plan": (1.0, 0.5)})
    costs.add("gitsync/a", {"changed": (0.25, 0.25)}, is_partial=True)
    found = costs.of("gitsync/a")
    assert (found.full, found.partial, found.total) == (2, 1, Spent(2.75, 1.5))
    assert found.stages["plan"] == Spent(2.0, 1.0)
    assert costs.of("gitsync/b") == Cost()
    assert Cost().total == Spent()


def test_a_deleted_application_leaves_only_the_distribution() -> None:
    costs = Costs()
    costs.add("gitsync/a", {"plan": (BOUNDS[0], 0.0)})
    costs.add("gitsync/a", {"plan": (99.0, 0.0)})
    costs.waited(0.2)
    costs.forget("gitsync/a")
    assert costs.of("gitsync/a") == Cost()
    plan = costs.distributions()["plan"]
    assert (plan.counts[0], plan.counts[-1], sum(plan.counts), plan.seconds) == (1, 1, 2, 99.0 + BOUNDS[0])
    assert sum(costs.distributions()[QUEUE].counts) == 1
