"""Reviews count only as far as the audit chain confirms them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitsync.errors import AuditMismatch, RecordUnavailable
from gitsync.objects.change import Review
from gitsync.objects.record import AuditHead, AuditRecord, Outcome
from gitsync.objects.user import User
from gitsync.record.audit_chain import ACCEPT, AuditHeads
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.review_factories import keep

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
APP = "gitsync/dev"
GRACE, ADA, LINUS = (User(name, ("platform",), is_authenticated=True) for name in ("Grace", "Ada", "Linus"))


def write(outcome: Outcome = Outcome.INTENDED, **more: str) -> AuditRecord:
    link = AuditRecord(APP, "update", "apps/Deployment/x/web", outcome, NOW, "s1", approver="Grace", digest="d1")
    return replace(link, **more)


def approve(records: SqlRecords, by: User = GRACE, hours: int = 1) -> Review:
    review = Review(by, True, "checked", NOW + timedelta(hours=hours))
    keep(records, APP, "d1", review, NOW)
    return review


def edit(database: RecordDatabase, statement: str) -> None:
    with database.writing() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE audit SET body = replace(body, 'Mallory', 'Grace') WHERE id = 2", "record 2 was changed"),
        ("UPDATE audit SET application = 'gitsync/other' WHERE id = 2", "record 2 was changed"),
        ("UPDATE audit SET body = replace(body, 'update', 'create') WHERE id = 3", "record 3 was changed"),
        ("DELETE FROM audit WHERE id = 2", "record 2 is not a review of it"),
        ("DELETE FROM audit WHERE id = 3", "the audit ends at record 2, 3 were written"),
        ("UPDATE plan_reviews SET link = 1", "record 1 is not a review of it"),
        ("UPDATE plan_reviews SET link = 3", "record 3 is not a review of it"),
    ],
)
def test_an_approval_counts_only_with_a_chain_that_confirms_it(
    records: SqlRecords, database: RecordDatabase, damage: str, says: str
) -> None:
    records.audit([write()])
    approve(records, User("Mallory"))
    records.audit([write(sync="s2", digest="d2")])
    edit(database, damage)
    with pytest.raises(AuditMismatch, match=says):
        records.review(APP, "d1", NOW)


def test_a_review_that_was_inserted_without_a_record_does_not_count(
    records: SqlRecords, database: RecordDatabase
) -> None:
    edit(database, f"INSERT INTO plan_reviews VALUES (7, '{APP}', 'd1', 1, '2099-01-01T00:00:00+00:00')")
    with pytest.raises(AuditMismatch, match="record 7 is not a review of it"):
        records.review(APP, "d1", NOW)


def test_the_review_of_another_plan_cannot_be_moved(records: SqlRecords, database: RecordDatabase) -> None:
    approve(records)
    edit(database, "UPDATE plan_reviews SET digest = 'd2'")
    with pytest.raises(AuditMismatch, match="record 1 is not a review of it"):
        records.review(APP, "d2", NOW)


def test_a_longer_validity_or_a_repeated_use_is_not_gained_in_the_table(
    records: SqlRecords, database: RecordDatabase
) -> None:
    approve(records)
    edit(database, "UPDATE plan_reviews SET until = '2099-01-01T00:00:00+00:00'")
    assert records.review(APP, "d1", NOW + timedelta(hours=2)) is None
    records.audit([write(), write(Outcome.SUCCEEDED)])
    records.end_approval(APP, "d1")
    edit(database, f"INSERT INTO plan_reviews VALUES (1, '{APP}', 'd1', 1, '2099-01-01T00:00:00+00:00')")
    assert records.review(APP, "d1", NOW) is None


def test_a_plan_is_approved_again_after_an_interrupted_sync(records: SqlRecords) -> None:
    approve(records)
    records.audit([write(), write(Outcome.SUCCEEDED)])  # the process ended before it ended the approval
    assert records.review(APP, "d1", NOW) is None
    assert records.review(APP, "d1", NOW, sync="s1") is not None
    approve(records, ADA)
    again = records.review(APP, "d1", NOW)
    assert again is not None
    assert (again.by, again.also) == (ADA, ()), "the approval that was used does not add to it"


def rewritten(database: RecordDatabase) -> None:
    """Replace the chain by one that verifies, as a writer of the database can."""
    edit(database, "DELETE FROM audit")
    edit(database, "DELETE FROM plan_reviews")
    edit(database, f"UPDATE chain SET length = 0, head = '{'0' * 64}'")
    approve(SqlRecords(database), User("Mallory"))


def test_a_rewritten_chain_lacks_what_this_process_wrote(records: SqlRecords, database: RecordDatabase) -> None:
    records.audit([write()])
    rewritten(database)
    with pytest.raises(AuditMismatch, match=r"record 1 is not the one of .* in what this process wrote"):
        records.review(APP, "d1", NOW)


def test_a_rewritten_chain_lacks_what_a_status_keeps(records: SqlRecords, database: RecordDatabase) -> None:
    records.audit([write()])
    kept = records.head(APP)
    assert kept is not None
    kept = AuditHead.from_json(kept.to_json(), "the status")
    rewritten(database)
    restarted = SqlRecords(database)
    assert restarted.review(APP, "d1", NOW) is not None
    with pytest.raises(AuditMismatch, match="record 1 is not the one of 2026-11-20 12:00:00 in the status"):
        restarted.review(APP, "d1", NOW, kept=kept)
    assert restarted.head(APP, kept) == kept, "what proves the loss must not be replaced"
    assert kept is not None
    assert "in the status" in "\n".join(restarted.verify([kept]))


def test_a_rewritten_chain_lacks_what_a_file_keeps(database: RecordDatabase, tmp_path: Path) -> None:
    file = tmp_path / "heads.jsonl"
    SqlRecords(database, AuditHeads(file)).audit([write()])
    SqlRecords(database, AuditHeads(file)).audit([write(Outcome.SUCCEEDED)])
    assert len(file.read_text().splitlines()) == 2
    assert SqlRecords(database, AuditHeads(file)).verify() == ()
    rewritten(database)
    restarted = SqlRecords(database, AuditHeads(file))
    with pytest.raises(AuditMismatch, match=r"record 2 .* in .*heads.jsonl"):
        restarted.review(APP, "d1", NOW)
    assert len(restarted.verify()) == 2


def test_an_operator_accepts_a_chain_that_lost_records(database: RecordDatabase, tmp_path: Path) -> None:
    file = tmp_path / "heads.jsonl"
    records = SqlRecords(database, AuditHeads(file))
    records.audit([write()])
    rewritten(database)
    records.audit([AuditRecord("", ACCEPT, "", Outcome.SUCCEEDED, NOW, "", approver="ada", reasoning="restored")])
    assert records.verify() == ()
    assert records.review(APP, "d1", NOW) is not None


def test_a_file_that_cannot_be_written_stops_the_audit(database: RecordDatabase, tmp_path: Path) -> None:
    with pytest.raises(RecordUnavailable, match="heads: the head of the audit chain cannot be kept: "):
        SqlRecords(database, AuditHeads(tmp_path / "absent" / "heads")).audit([write()])


def test_a_line_that_a_crash_cut_is_passed_over(database: RecordDatabase, tmp_path: Path) -> None:
    file = tmp_path / "heads"
    records = SqlRecords(database, AuditHeads(file))
    records.audit([write()])
    with file.open("ab") as cut:
        cut.write(b'{"hash": "12')
    assert records.verify() == ()


def test_approvals_of_several_users_add_up(records: SqlRecords) -> None:
    approve(records, ADA, hours=3)
    approve(records, GRACE)
    approve(records, GRACE)
    found = records.review(APP, "d1", NOW)
    assert found is not None
    assert (found.by, found.also) == (GRACE, (ADA,))
    later = records.review(APP, "d1", NOW + timedelta(hours=2))
    assert later is not None
    assert (later.by, later.also) == (ADA, ())


def test_a_rejection_ends_the_approvals_before_it(records: SqlRecords) -> None:
    approve(records, ADA)
    keep(records, APP, "d1", Review(LINUS, False, "no"), NOW)
    approve(records, GRACE)
    found = records.review(APP, "d1", NOW)
    assert found is not None
    assert (found.by, found.also) == (GRACE, ())


def test_expired_approvals_and_reviews_without_their_record_are_dropped(
    records: SqlRecords, database: RecordDatabase
) -> None:
    def rows() -> int:
        with database.reading() as connection:
            return int(connection.exec_driver_sql("SELECT count(*) FROM plan_reviews").scalar_one())

    approve(records, ADA, hours=-1)
    keep(records, APP, "d2", Review(LINUS, False, "no"), NOW)
    assert rows() == 1
    records.trim(NOW + timedelta(days=1), before=NOW + timedelta(days=1))
    assert rows() == 0
    assert records.review(APP, "d2", NOW) is None
