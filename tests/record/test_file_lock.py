"""Processes take turns to write to a SQLite file, and a killed one leaves no lock."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitsync.errors import RecordUnavailable
from gitsync.record.database import Database
from gitsync.record.file_lock import held
from gitsync.record.records import SqlRecords
from tests.child_process import child_process

_WRITER = """
import sys
from datetime import UTC, datetime
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords
records = SqlRecords(Database(sys.argv[1]))
for number in range(int(sys.argv[2])):
    sync = f"{sys.argv[3]}-{number}"
    records.audit([AuditRecord("gitsync/shop", "update", "x", Outcome.SUCCEEDED, datetime.now(UTC), sync)])
records.close()
"""
_HOLDER = """
import sys
from pathlib import Path
from gitsync.record.file_lock import held
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
    records = SqlRecords(Database(url))
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
