"""A defect in a reconcile is in the status, until a reconcile succeeds."""

from __future__ import annotations

import pytest

from gitsync.operator.agents import AgentReconciler
from tests.agents.factories import agent
from tests.flow.environment import World
from tests.operator.agent_world import condition, running, status_of
from tests.waiting import until


def test_a_defect_is_reported_and_goes_with_its_cause(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: AgentReconciler, *arguments: object) -> float:
        raise KeyError("a value of a Secret")

    with monkeypatch.context() as patched:
        patched.setattr(AgentReconciler, "reconcile", broken)
        world.start()
        world.apply(agent())
        found = until(lambda: (one := condition(world, "Stalled")).get("reason") == "InternalError" and one)
        until(lambda: status_of(world)["phase"] == "Failed", describe=lambda: status_of(world))
    assert "gitsync has a defect (KeyError, id " in found["message"]
    assert "Secret" not in found["message"]
    assert running(world)["phase"] == "Running"
