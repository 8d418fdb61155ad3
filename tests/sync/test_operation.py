"""The record of a sync whose process ended before it saved one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gitsync.objects.phase import Phase
from gitsync.objects.record import AuditRecord, Commit, Outcome
from gitsync.sync.operation import unrecorded_sync
from tests.fakes.engine import Engine, config_map
from tests.plan.factories import application

NOW = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
NEWEST = Commit("c" * 40, "Ada", message="Open the shop")
SUCCEEDED, FAILED = Outcome.SUCCEEDED, Outcome.FAILED


def links(*outcomes: Outcome | None, of: int = 0, commit: str = NEWEST.id) -> list[AuditRecord]:
    """Return the links of a sync, which wrote ConfigMaps ``0`` and following with these outcomes, of ``of`` steps."""
    made: list[AuditRecord] = []

    def append(link: AuditRecord) -> None:
        number = len(made)
        made.append(replace(link, id=number + 1, timestamp=NOW + timedelta(seconds=number)))

    for number, outcome in enumerate(outcomes):
        intent = AuditRecord(
            "gitsync/shop",
            "update",
            f"/ConfigMap/shop/{number}",
            Outcome.INTENDED,
            NOW,
            "s1",
            "changes it",
            plan_steps=of or len(outcomes),
            risk_level="Moderate" if number else "Safe",
            commit=commit,
            author="Grace",
            digest="d" * 64,
            details={"differences": [{"path": ".data.x"}], "trigger": "manual", "by": "ada"},
        )
        append(intent)
        if outcome is not None:
            append(replace(intent, outcome=outcome, message="it is full" if outcome is FAILED else "", details={}))
    return made


def test_it_says_what_the_audit_says() -> None:
    record = unrecorded_sync(application(), links(SUCCEEDED, SUCCEEDED), NEWEST)
    assert record is not None
    assert (record.sync, record.trigger, record.initiator, record.digest) == ("s1", "manual", "ada", "d" * 64)
    assert (record.outcome, record.message, record.risk) == (SUCCEEDED, "", "Moderate")
    assert (record.commit, record.started, record.duration_ms) == (NEWEST, NOW, 3000)
    assert [(step.ref, step.outcome, step.message) for step in record.steps] == [
        ("/ConfigMap/shop/0", SUCCEEDED, ""),
        ("/ConfigMap/shop/1", SUCCEEDED, ""),
    ]
    assert record.steps[0].differences == ({"path": ".data.x"},)


def test_an_older_commit_has_no_message() -> None:
    record = unrecorded_sync(application(), links(SUCCEEDED, commit="b" * 40), NEWEST)
    assert record is not None
    assert record.commit == Commit("b" * 40, "Grace")


@pytest.mark.parametrize(
    ("made", "outcome", "message"),
    [
        (links(SUCCEEDED, of=3), Outcome.SUPERSEDED, "interrupted after 1 of 3 steps"),
        (links(SUCCEEDED, FAILED, of=3), Outcome.PARTIAL, "ConfigMap shop/1: it is full"),
        (links(FAILED), FAILED, "ConfigMap shop/0: it is full"),
    ],
)
def test_its_outcome_is_that_of_its_writes(made: list[AuditRecord], outcome: Outcome, message: str) -> None:
    record = unrecorded_sync(application(), made, NEWEST)
    assert record is not None
    assert (record.outcome, record.message) == (outcome, message)


def test_there_is_none_while_a_write_is_unresolved() -> None:
    made = links(SUCCEEDED, None)
    assert unrecorded_sync(application(), made, NEWEST) is None
    # it was tried again, and that has no outcome yet
    again = replace(made[0], id=9)
    assert unrecorded_sync(application(), [*made[:2], again], NEWEST) is None
    assert unrecorded_sync(application(), [*made[:2], again, replace(made[1], id=10)], NEWEST) is not None


def test_a_sync_whose_intents_were_dropped_since_the_start_is_not_searched_again() -> None:
    engine = Engine()
    engine.sync("c1", config_map("a", x="1"))
    engine.cache.execution.unrecorded = ("gone",)
    assert engine.sync("c2", config_map("a", x="2")).outcome.phase is Phase.SYNCED
    assert engine.cache.execution.unrecorded == ()
