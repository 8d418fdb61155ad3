"""The number of plans that wait for a review, which every page shows."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from gitsync.errors import RecordUnavailable
from gitsync.objects.change import Review
from gitsync.objects.record import AuditHead
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.server.queries.waiting import decisions_awaited
from tests.review_factories import approval, keep, rejection
from tests.server.fakes import NOW, StillEngine, application, engine

DIGEST = "d" * 64
HELD = ("1 dangerous step waits",)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[StillEngine]:
    """Return an engine with three plans that wait, all of the same digest, and an Application whose plan does not."""
    held = [application(name, held=HELD) for name in ("shop", "blog", "wiki")]
    still = engine(tmp_path, [*held, application("calm")])
    yield still
    still.records.close()


def test_a_rejected_plan_awaits_no_decision(backend: StillEngine) -> None:
    assert decisions_awaited(backend) == 3
    keep(backend.records, "gitsync/shop", DIGEST, rejection(), NOW)
    # the digests of the others are the same: a review is of one Application
    assert decisions_awaited(backend) == 2


def test_a_rejected_plan_of_an_agent_awaits_no_decision(backend: StillEngine) -> None:
    metadata = {"name": "triage", "namespace": "shop", "uid": "u"}
    plan = {"digest": "a" * 64, "steps": 1, "risk": "Dangerous"}
    agent = {"apiVersion": "gitsync.dev/v1alpha1", "kind": "Agent", "metadata": metadata, "status": {"plan": plan}}
    backend.view.held = (agent,)
    assert decisions_awaited(backend) == 4
    keep(backend.records, "shop/agent:triage", "a" * 64, rejection(), NOW)
    assert decisions_awaited(backend) == 3


def test_an_approved_plan_is_counted_until_it_is_applied(backend: StillEngine) -> None:
    keep(backend.records, "gitsync/shop", DIGEST, approval(until=NOW + timedelta(hours=1)), NOW)
    assert decisions_awaited(backend) == 3


def test_a_rejection_that_the_audit_does_not_confirm_counts_not(backend: StillEngine, tmp_path: Path) -> None:
    keep(backend.records, "gitsync/shop", DIGEST, rejection("Mallory"), NOW)
    with closing(sqlite3.connect(tmp_path / "records.db")) as database, database:
        database.execute("UPDATE audit SET body = replace(body, 'Mallory', 'Grace')")
    assert decisions_awaited(backend) == 3


class CountedRecords(SqlRecords):
    """Records that count their answers about single plans."""

    answers = 0

    def review(
        self, application: str, digest: str, now: datetime, *, sync: str = "", kept: AuditHead | None = None
    ) -> Review | None:
        self.answers += 1
        return super().review(application, digest, now, sync=sync, kept=kept)


def test_a_plan_without_a_review_needs_no_query_of_its_own(backend: StillEngine, tmp_path: Path) -> None:
    records = CountedRecords(RecordDatabase(f"sqlite:///{tmp_path}/counted.db"))
    backend.records = records
    keep(records, "gitsync/shop", DIGEST, rejection(), NOW)
    assert decisions_awaited(backend) == 2
    assert records.answers == 1
    records.close()


class MissingRecords(SqlRecords):
    """Records whose database does not answer."""

    def reviewed(self, digests: Collection[str]) -> frozenset[tuple[str, str]]:
        raise RecordUnavailable("the database does not answer")


def test_all_plans_are_counted_without_the_records(backend: StillEngine, tmp_path: Path) -> None:
    keep(backend.records, "gitsync/shop", DIGEST, rejection(), NOW)
    backend.records = MissingRecords(RecordDatabase(f"sqlite:///{tmp_path}/records.db"))
    assert decisions_awaited(backend) == 3
    backend.records.close()
