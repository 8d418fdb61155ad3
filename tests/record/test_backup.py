"""A backup brings back everything that the records are, in either kind of database, or nothing."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from gitsync.errors import InvalidInput
from gitsync.objects.change import Review
from gitsync.objects.record import AuditRecord, Commit, Outcome, SyncRecord
from gitsync.objects.user import User
from gitsync.ports import Advice
from gitsync.record.backup import dump_records, load_records
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from tests.cli.conftest import Gitsync, gitsync
from tests.review_factories import keep

__all__ = ["gitsync"]

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
APP = "gitsync/shop"
GRACE = User("Grace", ("platform",), is_authenticated=True)
COUNT = 1500
"""More syncs than one batch has."""


def fill(records: SqlRecords) -> None:
    """Write a history with an approval that is still valid."""
    done = SyncRecord(APP, Commit("c" * 40, "Ada"), "commit", NOW, 42, Outcome.SUCCEEDED, "Safe", "d1")
    for _ in range(3):
        records.save(done)
    records.audit(
        [AuditRecord(APP, "update", f"ConfigMap/shop/{number}", Outcome.INTENDED, NOW, "s1") for number in range(COUNT)]
    )
    keep(records, APP, "d1", Review(GRACE, True, "checked", NOW + timedelta(hours=1)), NOW)
    records.keep_advice("d1", "endpoint", Advice())


def everything(records: SqlRecords) -> tuple[object, ...]:
    return (
        records.history(APP),
        records.audit_records(limit=COUNT + 10),
        records.head(APP, None),
        records.review(APP, "d1", NOW),
        records.advice("d1", "endpoint"),
        records.verify(),
    )


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Callable[[str], RecordDatabase]]:
    """Open databases of SQLite by name."""
    opened: list[RecordDatabase] = []

    def open_database(name: str) -> RecordDatabase:
        opened.append(RecordDatabase(f"sqlite:///{tmp_path}/{name}.db"))
        return opened[-1]

    yield open_database
    for database in opened:
        database.close()


Open = Callable[[str], RecordDatabase]


def test_records_move_to_the_other_kind_of_database_and_back(database: RecordDatabase, sqlite: Open) -> None:
    first = sqlite("first")
    fill(SqlRecords(first))
    load_records(database, dump_records(first))
    assert everything(SqlRecords(database)) == everything(SqlRecords(first))
    # ids continue: a row that is new has no id of a restored one
    saved = [SqlRecords(target).save(SqlRecords(first).history(APP)[0]).id for target in (database, first)]
    assert saved == [4, 4]
    second = sqlite("second")
    assert load_records(second, dump_records(database))["history"] == 4
    assert everything(SqlRecords(second)) == everything(SqlRecords(database))


def test_a_database_with_records_is_not_overwritten(sqlite: Open) -> None:
    first, second = sqlite("first"), sqlite("second")
    fill(SqlRecords(first))
    SqlRecords(second).audit([AuditRecord("gitsync/other", "sync", "", Outcome.FAILED, NOW, "s0")])
    before = everything(SqlRecords(second))
    with pytest.raises(InvalidInput, match="has records already; restore into an empty one"):
        load_records(second, dump_records(first))
    assert everything(SqlRecords(second)) == before


def changed(line: bytes) -> bytes:
    name, row = orjson.loads(line)
    return orjson.dumps([name, {**row, "body": row["body"].replace("ConfigMap", "Secret")}])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: lines[:-1], "ends too early"),
        (lambda lines: [*lines[:5], *lines[6:]], "rows are missing"),
        (lambda lines: [*lines[:5], changed(lines[5]), *lines[6:]], "the audit in the backup is damaged: .*record 2"),
        (lambda lines: [*lines[:5], lines[5][:20], *lines[6:]], "a line of the backup is damaged"),
        (lambda lines: lines[1:], "is not a backup of gitsync that this version reads"),
        (lambda lines: [], "is not a backup of gitsync"),
        (
            lambda lines: [lines[0], b'["later", {"id": 1}]', *lines[1:]],
            "table 'later' that this version does not know",
        ),
    ],
)
def test_a_damaged_backup_restores_nothing(
    sqlite: Open, damage: Callable[[list[bytes]], list[bytes]], message: str
) -> None:
    first, second = sqlite("first"), sqlite("second")
    fill(SqlRecords(first))
    with pytest.raises(InvalidInput, match=message):
        load_records(second, damage(list(dump_records(first))))
    assert SqlRecords(second).history(APP) == ()
    assert SqlRecords(second).audit_records() == ()
    # and it can be used as before
    assert load_records(second, dump_records(first))["audit"] == COUNT + 1


def test_a_backup_shows_one_moment_while_the_controller_writes(database: RecordDatabase, sqlite: Open) -> None:
    records = SqlRecords(database)
    fill(records)
    lines = dump_records(database)
    started = [next(lines), next(lines)]
    records.audit([AuditRecord(APP, "update", "ConfigMap/shop/later", Outcome.INTENDED, NOW, "s2")])
    second = sqlite("second")
    load_records(second, [*started, *lines])
    assert len(SqlRecords(second).audit_records(limit=COUNT + 10)) == COUNT + 1
    assert SqlRecords(second).verify() == ()


def test_all_is_back_after_everything_was_destroyed(tmp_path: Path, gitsync: Gitsync) -> None:
    data, file = tmp_path / "data", tmp_path / "gitsync.backup.gz"
    data.mkdir()
    with closing(SqlRecords(RecordDatabase(f"sqlite:///{data}/history.db"))) as records:
        fill(records)
        before = everything(records)
    assert gitsync("backup", file, "--data", data).code == 0
    assert file.stat().st_mode & 0o077 == 0
    assert gitsync("restore", "--check", file).code == 0
    refused = gitsync("restore", file, "--data", data)
    assert (refused.code, "has records already" in refused.err) == (2, True)

    shutil.rmtree(data)
    done = gitsync("restore", file, "--data", data)
    assert (done.code, f"3 syncs, {COUNT + 1} audit records" in " ".join(done.out.split())) == (0, True), done
    with closing(SqlRecords(RecordDatabase(f"sqlite:///{data}/history.db"))) as records:
        assert everything(records) == before


def test_a_file_that_is_no_backup_is_named(tmp_path: Path, gitsync: Gitsync) -> None:
    file = tmp_path / "x.gz"
    file.write_text("nothing")
    done = gitsync("restore", "--check", file)
    assert (done.code, "x.gz: cannot read the backup" in "".join(done.err.splitlines())) == (2, True), done
    with gzip.open(file, "w") as packed:
        packed.write(b'{"format": 1}\n')
    file.write_bytes(file.read_bytes()[:-9])
    assert gitsync("restore", "--check", file).code == 2
    assert gitsync("backup", file, "--data", tmp_path / "none").code == 2
    assert file.exists()
