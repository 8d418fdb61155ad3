"""The journal: the store's objects in SQLite, so that a sandbox survives a restart or a kill -9."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from gitsync.errors import InvalidInput

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    resource TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (resource, key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""


class SqliteJournal:
    """
    Keep each commit in its own transaction.

    The write-ahead log without a sync per commit survives the death of the process, which is the promise;
    the loss of power may take the last commits, never the consistency.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1)
        try:
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")  # one sandbox has one file
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.executescript(_SCHEMA)
        except sqlite3.OperationalError as error:
            self.close()
            raise InvalidInput(
                f"cannot use the sandbox's file: {error}",
                location=str(path),
                hint="stop the sandbox that has it open, or name another folder",
            ) from error
        except sqlite3.DatabaseError as error:
            self.close()
            raise InvalidInput(
                f"not a file of a sandbox: {error}", location=str(path), hint="name another folder"
            ) from error

    def revision(self) -> int | None:
        """Return the last committed revision, None in a fresh file."""
        return self._meta("revision")

    def objects(self) -> Iterator[tuple[str, str, int, bytes]]:
        """Yield resource, key, revision and body of every object."""
        yield from self._connection.execute("SELECT resource, key, revision, body FROM objects")

    def secret(self, name: str, fresh: str) -> str:
        """Return a value kept under a name, storing ``fresh`` when there is none yet."""
        self._connection.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, fresh))
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return str(row[0])

    def replace_secret(self, name: str, value: str) -> None:
        """Keep another value under a name."""
        self._connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    def write(self, resource: str, key: str, revision: int, body: bytes | None) -> None:
        """Keep one commit."""
        execute = self._connection.execute
        execute("BEGIN")
        try:
            if body is None:
                execute("DELETE FROM objects WHERE resource = ? AND key = ?", (resource, key))
            else:
                execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", (resource, key, revision, body))
            execute("INSERT OR REPLACE INTO meta VALUES ('revision', ?)", (revision,))
            execute("COMMIT")
        except sqlite3.Error:  # a full disk, say: this write fails, the next may succeed
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file; the log is folded into it."""
        self._connection.close()

    def _meta(self, name: str) -> int | None:
        row = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else int(row[0])
