"""Counts of what each kind of reconcile costs: writes to the API server, and queries to the Git server."""

from __future__ import annotations

import pytest

from tests.fakes.engine import KEY, config_map, edited
from tests.fakes.pipeline import UID, PipelineEngine

STATUS = ("replace status", "shop")
OBJECTS = [config_map(name, x="1") for name in "abc"]


@pytest.fixture
def engine() -> PipelineEngine:
    """An engine that has applied three objects of a commit."""
    made = PipelineEngine()
    made.source.commit("c1", *OBJECTS)
    made.run_until("Synced")
    made.cluster.writes.clear()
    made.source.requests.clear()
    return made


def test_a_first_sync_writes_thrice_beside_its_objects() -> None:
    engine = PipelineEngine()
    engine.source.commit("c1", *OBJECTS)
    engine.run_until("Synced")
    applies = [("apply", name) for name in "abc"]
    # the finalizer, what is held before the first apply, and the result
    assert engine.cluster.writes == [("replace", "shop"), STATUS, *applies, STATUS]
    assert engine.source.requests == ["resolve"]


def test_a_commit_writes_what_it_changes_and_one_status(engine: PipelineEngine) -> None:
    engine.push("c2", config_map("a", x="2"), *OBJECTS[1:])
    engine.run_until("Synced")
    assert engine.cluster.writes == [("apply", "a"), STATUS]
    assert engine.source.requests == ["resolve"]


def test_a_repair_writes_its_object_and_one_status(engine: PipelineEngine) -> None:
    edited(engine, "b", x="9")
    engine.run()
    engine.run()
    assert engine.cluster.writes == [("apply", "b"), STATUS]
    assert engine.source.requests == []


def test_a_poll_without_a_commit_asks_git_once_and_writes_nothing(engine: PipelineEngine) -> None:
    engine.clock.seconds += 3600
    engine.run()
    engine.run()
    assert engine.source.requests == ["resolve"]
    assert engine.cluster.writes == []


def test_a_restart_asks_git_once_and_writes_nothing(engine: PipelineEngine) -> None:
    engine.pipeline.forget(UID)
    engine.writes.forget(KEY)
    engine.run()
    engine.run()
    assert engine.source.requests == ["resolve"]
    assert engine.cluster.writes == []
