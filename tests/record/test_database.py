"""The database: opening it, its lock between processes, and shared commits."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection

from gitsync.errors import InvalidInput, RecordUnavailable
from gitsync.record.database import GroupCommit, RecordDatabase, held
from gitsync.record.records import SqlRecords
from gitsync.record.tables import CHAIN
from tests.child_process import child_process
from tests.waiting import until


def test_an_absent_driver_is_reported_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(InvalidInput, match="needs the package psycopg") as caught:
        RecordDatabase("postgresql://gitsync@db/gitsync")

    assert "gitsync[postgresql]" in caught.value.hint


_WRITER = """
import sys
from datetime import UTC, datetime
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
records = SqlRecords(RecordDatabase(sys.argv[1]))
for number in range(int(sys.argv[2])):
    sync = f"{sys.argv[3]}-{number}"
    records.audit([AuditRecord("gitsync/shop", "update", "x", Outcome.SUCCEEDED, datetime.now(UTC), sync)])
records.close()
"""
_HOLDER = """
import sys
from contextlib import ExitStack
from pathlib import Path
from gitsync.record.database import held
with held(Path(sys.argv[1]), 1):
    print(flush=True)
    sys.stdin.read()
"""


def test_two_processes_append_to_one_chain(tmp_path: Path) -> None:
    url, count = f"sqlite:///{tmp_path / 'history.db'}", 40
    with ExitStack() as ending:
        commands = [[sys.executable, "-c", _WRITER, url, str(count), name] for name in "ab"]
        writers = [ending.enter_context(child_process(command)) for command in commands]
        assert [writer.wait(60) for writer in writers] == [0, 0]
    records = SqlRecords(RecordDatabase(url))
    assert records.verify() == ()
    assert {record.sync for record in records.export()} == {f"{name}-{n}" for name in "ab" for n in range(count)}
    records.close()


def test_a_write_waits_for_another_process_and_then_reports_it(tmp_path: Path) -> None:
    file = tmp_path / "history.db.lock"
    command = [sys.executable, "-c", _HOLDER, str(file)]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(RecordUnavailable, match="another process has been writing"), held(file, 0.05):
            pass
    with held(file, 5):
        pass


def test_a_lock_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "absent"):
        with pytest.raises(RecordUnavailable, match="cannot be used: its lock"), held(folder / "lock", 1):
            pass
    assert not (tmp_path / "absent").exists()


def test_a_database_in_memory_needs_no_lock() -> None:
    with held(None, 0.0):
        pass


class Transactions:
    """Transactions of a database, counted; the first one is held open until ``go_on`` is set."""

    def __init__(self, database: RecordDatabase) -> None:
        self._database = database
        self.count = 0
        self.go_on = threading.Event()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction."""
        self.count += 1
        with self._database.writing() as connection:
            yield connection
            assert self.go_on.wait(60)


def run_behind(
    transactions: Transactions, writes: list[Callable[[Connection], int]]
) -> list[int | BaseException | None]:
    """Return the results or errors of writes that all wait while another transaction is open."""
    commits = GroupCommit(transactions.writing)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(commits.run, lambda connection: 0)
        until(lambda: transactions.count == 1)
        others = [pool.submit(commits.run, write) for write in writes]
        until(lambda: len(commits._waiting) == len(writes))
        transactions.go_on.set()
        assert first.result() == 0
        return [other.exception() or other.result() for other in others]


def increment(connection: Connection) -> int:
    """Add a link to the length of the chain and return the length."""
    connection.execute(CHAIN.update().values(length=CHAIN.c.length + 1))
    return int(connection.execute(CHAIN.select()).one().length)


def fail(connection: Connection) -> int:
    """Write something and fail."""
    increment(connection)
    raise ZeroDivisionError


def test_writes_that_wait_share_one_transaction(database: RecordDatabase) -> None:
    transactions = Transactions(database)
    assert sorted(map(str, run_behind(transactions, [increment] * 3))) == ["1", "2", "3"]
    assert transactions.count == 2


def test_a_write_that_fails_is_undone_and_fails_no_other(database: RecordDatabase) -> None:
    transactions = Transactions(database)
    results = run_behind(transactions, [increment, fail, increment])
    assert isinstance(results[1], ZeroDivisionError)
    assert sorted(map(str, (results[0], results[2]))) == ["1", "2"]
    with database.reading() as connection:
        assert connection.execute(CHAIN.select()).one().length == 2


def test_the_error_of_a_single_write_is_raised(database: RecordDatabase) -> None:
    with pytest.raises(ZeroDivisionError):
        GroupCommit(database.writing).run(fail)


def test_a_damaged_file_is_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    file = tmp_path / "history.db"
    file.write_bytes(b"not a valid database " * 100)
    with pytest.raises(RecordUnavailable) as damaged:
        RecordDatabase(f"sqlite:///{file}")
    assert "its file is damaged: stop the controller and restore a backup" in str(damaged.value)


def test_the_size_is_that_of_the_file_and_its_log(tmp_path: Path) -> None:
    records = SqlRecords(RecordDatabase(f"sqlite:///{tmp_path}/history.db"))
    assert records.size() == sum((tmp_path / name).stat().st_size for name in ("history.db", "history.db-wal"))
    records.close()
