"""The drift of an Application over time: detected once, and in the audit when it ends, with who ended it."""

from __future__ import annotations

import pytest

from gitsync.errors import RecordUnavailable, Rejected
from gitsync.objects.record import Outcome
from gitsync.plan.drift_history import DRIFT_ACTION, past_fields
from tests.fakes.engine import Engine, config_map, edited


def ended(engine: Engine) -> list[tuple[str, str, float]]:
    """Return the drift that has ended: object, how it ended, and the seconds from its detection."""
    links = [link for link in engine.records.links if link.action == DRIFT_ACTION]
    return [(field.ref.name, field.by.value, field.seconds) for field in past_fields(links)]


def drifted(*, self_heal: bool) -> Engine:
    engine = Engine(sync={"selfHeal": self_heal})
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="2")
    engine.reconcile()
    engine.clock.seconds += 5
    return engine


def test_a_repair_ends_drift() -> None:
    engine = drifted(self_heal=True)
    engine.reconcile()
    assert ended(engine) == [("a", "self-heal", 0.0)]


def test_a_repair_that_is_answered_later_ends_drift() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="2")
    engine.pool.slow.add("a")
    assert engine.reconcile().record is None
    assert ended(engine) == []
    engine.pool.answer()
    engine.clock.seconds += 5
    report = engine.reconcile()
    assert ended(engine) == [("a", "self-heal", 5.0)]
    assert report.record is not None
    assert (report.record.trigger, [step.outcome for step in report.record.steps]) == ("drift", [Outcome.SUCCEEDED])
    assert (report.healed, engine.status["drift"]["correctedTotal"]) == (1, 1)
    assert engine.reconcile().record is None


def test_a_repair_that_fails_later_ends_nothing_and_waits() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="2")
    engine.pool.slow.add("a")
    engine.cluster.failures["a"].append(Rejected("not today", code=403))
    engine.reconcile()
    engine.pool.answer()
    engine.written()
    report = engine.reconcile()
    assert (report.record.outcome if report.record else None, ended(engine)) == (Outcome.FAILED, [])
    assert engine.written() == [], "a failure is retried with a delay"


def test_drift_that_lasts_is_not_in_the_history() -> None:
    engine = drifted(self_heal=False)
    engine.reconcile()
    assert ended(engine) == []
    assert sum(engine.state.drift.totals().detected.values()) == 1


def test_a_requested_sync_ends_drift() -> None:
    engine = drifted(self_heal=False)
    engine.cache.requested_by = "ada"
    engine.reconcile()
    engine.reconcile()
    assert ended(engine) == [("a", "sync", 5.0)]


def test_a_commit_that_writes_the_object_ends_drift() -> None:
    engine = drifted(self_heal=False)
    engine.sync("c2", config_map("a", x="3"))
    engine.reconcile()
    assert ended(engine) == [("a", "sync", 5.0)]


def test_others_who_undo_their_edit_end_drift() -> None:
    engine = drifted(self_heal=False)
    edited(engine, "a", x="1")
    engine.reconcile()
    engine.reconcile()
    assert ended(engine) == [("a", "others", 5.0)]


def test_a_repair_that_fails_ends_nothing() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    edited(engine, "a", x="2")
    engine.cluster.failures["a"].append(Rejected("not today", code=403))
    engine.reconcile()
    assert ended(engine) == []


def test_drift_without_its_link_stays_open() -> None:
    engine = drifted(self_heal=False)
    edited(engine, "a", x="1")
    engine.records.error = RecordUnavailable("the disk is full")
    with pytest.raises(RecordUnavailable):
        engine.reconcile()
    engine.records.error = None
    engine.reconcile()
    assert ended(engine) == [("a", "others", 5.0)]


def test_drift_that_lasts_over_a_restart_is_detected_once() -> None:
    engine = drifted(self_heal=False)
    engine.restart()
    engine.reconcile()
    assert sum(engine.state.drift.totals().detected.values()) == 1
    edited(engine, "a", x="1")
    engine.reconcile()
    assert ended(engine) == [("a", "others", 5.0)]
