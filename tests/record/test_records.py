from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from gitsync.errors import RecordUnavailable
from gitsync.objects.record import AuditRecord, Commit, Outcome, Step, SyncRecord
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords

NOW = datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)


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


def test_forgetting_keeps_the_newest(records: SqlRecords) -> None:
    ids = [records.save(sync_record()).id for _ in range(5)]
    records.save(sync_record("gitsync/prod"))
    records.forget("gitsync/dev", keep=2)
    assert [record.id for record in records.history("gitsync/dev")] == [ids[4], ids[3]]
    assert len(records.history("gitsync/prod")) == 1
    records.forget("gitsync/dev", keep=9)
    assert len(records.history("gitsync/dev")) == 2


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
    records: SqlRecords, database: Database, damage: str, says: str
) -> None:
    records.audit([audit_record() for _ in range(3)])
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    assert says in "\n".join(records.verify())


def test_intents_without_an_outcome_are_unfinished(records: SqlRecords) -> None:
    records.audit([audit_record("create"), audit_record("update")])
    records.audit([audit_record("update", Outcome.FAILED)])
    records.audit([audit_record("update", Outcome.FAILED, sync="s0")])
    assert [(record.action, record.sync) for record in records.unfinished()] == [("create", "s1")]


def test_writers_do_not_break_the_chain(records: SqlRecords) -> None:
    threads = [threading.Thread(target=lambda: [records.audit([audit_record()]) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records.verify() == ()
    assert records.audit_records(limit=1)[0].id == 40


def test_an_approval_is_for_one_plan_once_and_for_a_time(records: SqlRecords) -> None:
    records.approve("gitsync/dev", "d1", approver="Grace", reason="checked", until=NOW + timedelta(hours=1))
    assert records.approval("gitsync/dev", "d1", NOW) == "Grace"
    assert records.approval("gitsync/dev", "d2", NOW) == ""
    assert records.approval("gitsync/prod", "d1", NOW) == ""
    assert records.approval("gitsync/dev", "d1", NOW + timedelta(hours=2)) == ""
    records.use_approval("gitsync/dev", "d1")
    assert records.approval("gitsync/dev", "d1", NOW) == ""
    records.approve("gitsync/dev", "d1", approver="Linus", reason="again", until=NOW + timedelta(hours=1))
    assert records.approval("gitsync/dev", "d1", NOW) == "Linus"


def test_records_survive_a_reopening(url: str) -> None:
    first = SqlRecords(Database(url))
    first.audit([audit_record()])
    first.close()
    again = Database(url)
    assert SqlRecords(again).verify() == ()
    with again.writing() as connection:
        for table in ("history", "audit", "approvals", "chain"):
            connection.exec_driver_sql(f"DROP TABLE {table}")
    again.close()


def test_a_database_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordUnavailable, match="cannot be used"):
        Database(f"sqlite:///{tmp_path}/absent/records.db")


def test_a_rejection_takes_an_approval_back_and_the_other_way_round(records: SqlRecords) -> None:
    assert records.rejection("gitsync/dev", "d1") is None
    records.approve("gitsync/dev", "d1", approver="Grace", reason="checked", until=NOW + timedelta(hours=1))
    records.reject("gitsync/dev", "d1", by="Linus", reason="not on Friday")
    assert records.approval("gitsync/dev", "d1", NOW) == ""
    assert records.rejection("gitsync/dev", "d1") == ("Linus", "not on Friday")
    assert records.rejection("gitsync/dev", "d2") is None
    records.reject("gitsync/dev", "d1", by="Ada", reason="nor on Monday")
    assert records.rejection("gitsync/dev", "d1") == ("Ada", "nor on Monday")
    records.approve("gitsync/dev", "d1", approver="Grace", reason="well then", until=NOW + timedelta(hours=1))
    assert records.rejection("gitsync/dev", "d1") is None
    assert records.approval("gitsync/dev", "d1", NOW) == "Grace"
