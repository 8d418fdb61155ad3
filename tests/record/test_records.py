from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from gitsync.errors import RecordUnavailable
from gitsync.objects.change import Review, Risk
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.objects.user import User
from gitsync.ports import Advice
from gitsync.record.audit_chain import Retention
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.record.conftest import drop_tables
from tests.review_factories import keep

NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)
GRACE = User("Grace", ("platform", "on-call"), is_authenticated=True)


def sync_record(application: str = "gitsync/dev", commit: str = "a" * 40) -> SyncRecord:
    return SyncRecord(
        application=application,
        commit=Commit(
            commit, "Ada", "ada@example.test", "Raise the image\n\nbody", NOW.astimezone(timezone(timedelta(hours=2)))
        ),
        trigger="commit",
        started=NOW,
        duration_ms=42,
        outcome=Outcome.SUCCEEDED,
        risk="Moderate",
        digest="d" * 64,
        steps=(
            Step("apps/Deployment/x/web", "update", "Moderate", "image", Outcome.SUCCEEDED, "", ({"path": ".spec"},)),
        ),
    )


def audit_record(action: str = "update", outcome: Outcome = Outcome.INTENDED, sync: str = "s1") -> AuditRecord:
    return AuditRecord(
        "gitsync/dev", action, "apps/Deployment/x/web", outcome, NOW, sync, plan_steps=3, commit="a" * 40
    )


def test_a_record_comes_back_as_it_was_saved(records: SqlRecords) -> None:
    saved = records.save(sync_record())
    assert saved.id > 0
    assert records.record(saved.id) == saved
    assert records.record(saved.id + 1) is None


def test_history_is_newest_first_by_application_and_page(records: SqlRecords) -> None:
    ids = [records.save(sync_record(commit=str(index) * 40)).id for index in range(5)]
    records.save(sync_record("gitsync/prod"))
    assert [record.id for record in records.history("gitsync/dev", limit=2)] == [ids[4], ids[3]]
    assert [record.id for record in records.history("gitsync/dev", before=ids[2])] == [ids[1], ids[0]]
    assert len(records.history()) == 6


def test_saving_keeps_the_newest_records_of_the_application(records: SqlRecords) -> None:
    records.save(sync_record("gitsync/prod"))
    ids = [records.save(sync_record(), keep=9).id for _ in range(5)]
    assert [record.id for record in records.history("gitsync/dev")] == ids[::-1]
    last = records.save(sync_record(), keep=2).id
    assert [record.id for record in records.history("gitsync/dev")] == [last, ids[4]]
    assert len(records.history("gitsync/prod")) == 1


def test_a_sync_is_recorded_once_by_whichever_replica(records: SqlRecords) -> None:
    first = records.save(replace(sync_record(), sync="abc"))
    assert records.save(replace(sync_record(), sync="abc", message="by another replica")) == first
    late = records.save(replace(sync_record(), sync="abc-late"))
    other = records.save(replace(sync_record("gitsync/prod"), sync="abc"))
    # without writes there is nothing to tell two apart by
    unwritten = [records.save(sync_record()) for _ in range(2)]
    assert records.history() == (unwritten[1], unwritten[0], other, late, first)


def test_a_long_audit_is_appended_in_parts(records: SqlRecords) -> None:
    """The records of a plan of thousands are not in memory at once, and form one chain."""
    appended: list[int] = []

    def made() -> Iterator[AuditRecord]:
        for _ in range(1200):
            appended.append(len(records.audit_records(limit=1)) and records.audit_records(limit=1)[0].id)
            yield audit_record()

    records.audit(made())
    assert [appended[number] for number in (0, 499, 500, 999, 1000, 1199)] == [0, 0, 500, 500, 1000, 1000]
    assert records.audit_records(limit=1)[0].id == 1200
    assert not records.verify()


def test_audit_records_form_a_chain(records: SqlRecords) -> None:
    records.audit([audit_record(), audit_record("create")])
    records.audit([audit_record(outcome=Outcome.SUCCEEDED)])
    newest = records.audit_records()
    assert [record.id for record in newest] == [3, 2, 1]
    assert newest[0].previous == newest[1].hash
    assert replace(newest[2], id=0, previous="", hash="") == audit_record()
    assert [record.id for record in records.export(batch=2)] == [1, 2, 3]
    assert records.verify() == ()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE audit SET body = replace(body, 'update', 'nothing') WHERE id = 2", "audit record 2 was changed"),
        ("DELETE FROM audit WHERE id = 2", "audit record 2 is missing"),
        ("DELETE FROM audit WHERE id >= 2", "the audit ends at record 1, 3 were written"),
        ("UPDATE audit SET previous = hash WHERE id = 2", "audit record 2 does not follow"),
        ("UPDATE chain SET head = 'x'", "the last audit record is not the one"),
    ],
)
def test_an_edited_or_missing_audit_record_shows(
    records: SqlRecords, database: RecordDatabase, damage: str, says: str
) -> None:
    records.audit([audit_record() for _ in range(3)])
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    assert says in "\n".join(records.verify())


def test_intents_without_an_outcome_are_unresolved(records: SqlRecords) -> None:
    records.audit([audit_record("create"), audit_record("update")])
    records.audit([audit_record("update", Outcome.FAILED)])
    records.audit([audit_record("update", Outcome.FAILED, sync="s0")])
    assert [(record.action, record.sync) for record in records.unresolved()] == [("create", "s1")]
    application = records.unresolved()[0].application
    assert records.unresolved(application) == records.unresolved()
    assert records.unresolved("another/application") == ()


def test_writers_do_not_break_the_chain(records: SqlRecords) -> None:
    threads = [threading.Thread(target=lambda: [records.audit([audit_record()]) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records.verify() == ()
    assert records.audit_records(limit=1)[0].id == 40


def approved(records: SqlRecords, digest: str = "d1", by: User = GRACE, reason: str = "checked") -> Review:
    """Store an approval for an hour."""
    review = Review(by, True, reason, NOW + timedelta(hours=1))
    keep(records, "gitsync/dev", digest, review, NOW)
    return review


def intent(sync: str, outcome: Outcome = Outcome.INTENDED) -> AuditRecord:
    """Return a link of a sync that an approval of d1 allowed."""
    return replace(audit_record(outcome=outcome, sync=sync), approver="Grace", digest="d1")


def test_an_approval_is_for_one_plan_and_for_a_time(records: SqlRecords) -> None:
    review = approved(records)
    assert records.review("gitsync/dev", "d1", NOW) == review
    assert records.review("gitsync/dev", "d2", NOW) is None
    assert records.review("gitsync/prod", "d1", NOW) is None
    assert records.review("gitsync/dev", "d1", NOW + timedelta(hours=2)) is None
    assert [link.action for link in records.audit_records()] == ["approve"]


def test_the_plans_with_reviews_are_told_by_one_query(records: SqlRecords) -> None:
    approved(records)
    approved(records, "d2")
    assert records.reviewed(["d1", "d3"]) == {("gitsync/dev", "d1")}
    assert records.reviewed([]) == frozenset()


def test_an_approval_is_for_one_sync(records: SqlRecords) -> None:
    approved(records)
    records.end_approval("gitsync/dev", "d1")
    assert records.review("gitsync/dev", "d1", NOW) is None
    again = approved(records, reason="again")
    assert records.review("gitsync/dev", "d1", NOW) == again


def test_a_sync_interrupted_before_anything_was_done_may_go_on_with_its_approval(records: SqlRecords) -> None:
    review = approved(records)
    records.audit([intent("s1")])
    assert records.review("gitsync/dev", "d1", NOW) == review
    records.audit([intent("s1", Outcome.FAILED)])
    assert records.review("gitsync/dev", "d1", NOW) == review


def test_an_approval_by_which_something_was_done_is_for_that_sync_alone(records: SqlRecords) -> None:
    review = approved(records)
    records.audit([intent("s1")])
    records.audit([intent("s1", Outcome.SUCCEEDED)])
    assert records.review("gitsync/dev", "d1", NOW) is None
    assert records.review("gitsync/dev", "d1", NOW, sync="s2") is None
    assert records.review("gitsync/dev", "d1", NOW, sync="s1") == review


def test_an_intent_that_names_no_approver_uses_no_approval(records: SqlRecords) -> None:
    review = approved(records)
    records.audit([replace(intent("s1"), approver="")])
    records.audit([intent("s1", Outcome.SUCCEEDED)])
    assert records.review("gitsync/dev", "d1", NOW) == review


def test_records_survive_a_reopening(url: str) -> None:
    first = SqlRecords(RecordDatabase(url))
    first.audit([audit_record()])
    first.close()
    again = RecordDatabase(url)
    assert SqlRecords(again).verify() == ()
    drop_tables(again)
    again.close()


def test_controllers_that_start_on_an_empty_database_at_once_share_it(url: str, database: RecordDatabase) -> None:
    drop_tables(database)
    with ThreadPoolExecutor(8) as threads:
        opened = list(threads.map(RecordDatabase, [url] * 8))
    SqlRecords(opened[0]).audit([audit_record()])
    assert [SqlRecords(one).verify() for one in opened] == [()] * 8
    for one in opened:
        one.close()


def test_a_database_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordUnavailable, match="cannot be used"):
        RecordDatabase(f"sqlite:///{tmp_path}/absent/records.db")


def test_the_newest_review_of_a_plan_counts(records: SqlRecords) -> None:
    approved(records)
    rejection = Review(User("Linus"), False, "not on Friday")
    keep(records, "gitsync/dev", "d1", rejection, NOW)
    assert records.review("gitsync/dev", "d1", NOW + timedelta(days=9)) == rejection
    assert records.review("gitsync/dev", "d2", NOW) is None
    records.end_approval("gitsync/dev", "d1")
    assert records.review("gitsync/dev", "d1", NOW) == rejection
    review = approved(records, reason="well then")
    assert records.review("gitsync/dev", "d1", NOW) == review


def test_answers_of_a_reasoner_are_kept_as_long_as_they_are_among_the_newest(
    records: SqlRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gitsync.record.records._ANSWERS", 2)
    advice = Advice("It grows.", Risk.DANGEROUS, "too fast")
    for digest in ("d1", "d2", "d3"):
        records.keep_advice(digest, "who", advice)
    assert records.advice("d1", "who") is None
    assert records.advice("d3", "who") == advice
    assert records.advice("d3", "another") is None
    records.keep_advice("d3", "who", Advice("It shrinks."))
    assert records.advice("d3", "who") == Advice("It shrinks.")


def aged(days: int, **more: Any) -> AuditRecord:
    """Return an audit record that is ``days`` days old."""
    return replace(audit_record(outcome=Outcome.SUCCEEDED), timestamp=NOW - timedelta(days=days), **more)


def test_a_trimmed_audit_is_whole_and_says_what_is_gone(records: SqlRecords) -> None:
    records.audit([aged(9), aged(8), aged(7), aged(1)])
    assert records.trim(NOW, before=NOW - timedelta(days=7, hours=1)) == 2
    assert [(link.id, link.action) for link in records.export()] == [(3, "update"), (4, "update"), (5, "trim")]
    assert records.verify() == ()
    records.audit([audit_record()])
    assert records.trim(NOW, before=NOW - timedelta(hours=1)) == 2
    assert [link.id for link in records.export()] == [5, 6, 7]
    assert records.verify() == ()
    assert records.trim(NOW, before=NOW - timedelta(hours=1)) == 0
    assert records.audit_records(limit=1)[0].id == 7


def test_an_audit_that_is_all_old_is_trimmed_to_the_link_that_says_so(records: SqlRecords) -> None:
    assert records.trim(NOW, before=NOW) == 0
    records.audit([aged(9), aged(8)])
    assert records.trim(NOW, before=NOW) == 2
    assert [(link.id, link.action) for link in records.export()] == [(3, "trim")]
    assert records.verify() == ()


def test_an_audit_is_trimmed_to_a_number_of_records(records: SqlRecords) -> None:
    records.audit([aged(9), aged(8), aged(7), aged(6)])
    assert records.trim(NOW, keep=3) == 0
    assert records.trim(NOW, before=NOW - timedelta(days=8, hours=12), keep=2) == 2
    links = list(records.export())
    assert [(link.id, link.action) for link in links] == [(3, "update"), (4, "update"), (5, "trim")]
    day = f"{NOW - timedelta(days=8, hours=12):%Y-%m-%d}"
    assert links[-1].message == f"records up to 2 were dropped: older than {day} or more than 2"
    assert records.verify() == ()
    assert records.trim(NOW, keep=2) == 0
    records.audit([aged(5)])
    assert records.trim(NOW, keep=2) == 2
    assert list(records.export())[-1].message == "records up to 4 were dropped: more than 2"


def test_a_write_without_an_outcome_is_never_trimmed(records: SqlRecords) -> None:
    open_intent = replace(audit_record(), timestamp=NOW - timedelta(days=8), sync="s2")
    records.audit([aged(9), open_intent, aged(7)])
    assert records.trim(NOW, before=NOW) == 1
    assert [link.id for link in records.export()] == [2, 3, 4]
    assert [link.sync for link in records.unresolved()] == ["s2"]
    assert records.trim(NOW, keep=1) == 0


def test_cutting_off_more_than_the_chain_says_shows(records: SqlRecords, database: RecordDatabase) -> None:
    records.audit([aged(9), aged(8), aged(1)])
    records.trim(NOW, before=NOW - timedelta(days=8, hours=1))
    with database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM audit WHERE id = 2")
    assert records.verify() == ("audit record 2 is missing",)


def test_retention_trims_at_the_start_and_ends(records: SqlRecords) -> None:
    class Stopped:
        def now(self) -> datetime:
            return NOW

        def monotonic(self) -> float:
            return 0.0

    records.audit([aged(9), aged(1)])
    retention = Retention(records, Stopped(), days=7)
    retention.start()
    retention.stop()
    assert [link.id for link in records.export()] == [2, 3]
    records.audit([aged(0), aged(0)])
    Retention(records, Stopped(), keep=1).trim()
    assert [link.id for link in records.export()] == [5, 6]


def test_a_database_of_the_previous_version_is_read(tmp_path: Path) -> None:
    file = tmp_path / "records.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript((Path(__file__).parent / "previous_version.sql").read_text(encoding="utf-8"))
    records = SqlRecords(RecordDatabase(f"sqlite:///{file}"))
    second, first = records.history("gitsync/shop")
    assert (first.id, first.outcome, first.initiator, first.commit.author) == (1, Outcome.PARTIAL, "grace", "Ada")
    assert first.commit.time == NOW
    assert [step.outcome for step in first.steps] == [Outcome.SUCCEEDED, Outcome.FAILED]
    assert first.steps[0].differences == ({"path": ".spec.replicas", "live": 1, "desired": 2.5, "kind": "changed"},)
    assert (second.commit, second.started) == (Commit("b" * 40), NOW + timedelta(minutes=1))
    (intent,) = records.unresolved()
    assert (intent.resource, intent.outcome, intent.timestamp) == ("/ConfigMap/shop/a", Outcome.INTENDED, NOW)
    assert intent.details == {"differences": [{"path": ".spec.replicas", "live": 1, "desired": None}]}
    assert records.verify() == ()
    assert records.advice("d" * 64, "asked") == Advice("tiny adds: fine", Risk.MODERATE, "why")
    again = records.save(first)
    assert records.record(again.id) == again  # what was read can be written
    records.audit([intent])
    assert records.verify() == ()
    records.close()
