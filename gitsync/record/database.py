"""Database: open SQLite or PostgreSQL by URL, translate its errors, let writes of several threads share a commit."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from gitsync.errors import InvalidInput, RecordUnavailable
from gitsync.record.tables import CHAIN, GENESIS, METADATA

# the advisory lock of PostgreSQL that is held while tables are created
_CREATION_LOCK = 0x6769747379
# seconds that a write waits for another process
_BUSY_SECONDS = 30


class RecordDatabase:
    """
    One database of records.

    SQLite: write-ahead log with full synchronisation, and one connection of all processes that writes, since two at
    once can damage the log of the SQLite of Debian 12 (fixed in 3.51.3). PostgreSQL: through psycopg, when the URL says
    so.
    """

    def __init__(self, url: str) -> None:
        self.url = make_url(url)
        self._is_sqlite = self.url.get_backend_name() == "sqlite"
        if not self._is_sqlite:
            self.url = self.url.set(drivername="postgresql+psycopg")
        self._write_lock = threading.Lock()
        self._lock_file = _lock_file(self.url.database) if self._is_sqlite else None
        self._readers = self._engine("BEGIN", pool_size=4)
        # BEGIN IMMEDIATE takes the write lock at once: a transaction that reads first and then writes may fail with
        # SQLITE_BUSY
        self._writer = (
            self._engine("BEGIN IMMEDIATE", pool_size=1, max_overflow=0) if self._is_sqlite else self._readers
        )
        with self._translated():
            self._create()

    def _engine(self, begin: str, **options: Any) -> Engine:
        if not self._is_sqlite:
            return self._postgresql_engine(**options)
        engine = create_engine(self.url, connect_args={"check_same_thread": False, "timeout": _BUSY_SECONDS}, **options)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def _postgresql_engine(self, **options: Any) -> Engine:
        try:
            # pre-ping: a connection that the server closed while it was idle is replaced instead of failing a write
            return create_engine(self.url, pool_pre_ping=True, **options)
        except ModuleNotFoundError as error:
            raise InvalidInput(
                f"a PostgreSQL database needs the package {error.name}", hint="pip install 'gitsync[postgresql]'"
            ) from error

    def _create(self) -> None:
        with held(self._lock_file, _BUSY_SECONDS), self._writer.begin() as connection:
            if not self._is_sqlite:  # several controllers may start on an empty database at once
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
            METADATA.create_all(connection)
            if connection.execute(CHAIN.select()).first() is None:
                connection.execute(CHAIN.insert().values(id=1, length=0, head=GENESIS))

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection to read from; raise RecordUnavailable when that fails."""
        with self._translated(), self._readers.connect() as connection:
            yield connection

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of this machine."""
        return self._is_sqlite

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection that reads all tables as they are at one moment, whatever is written meanwhile."""
        with self._translated(), self._readers.connect() as connection:
            # a transaction of SQLite is one already; PostgreSQL reads what was committed before each statement
            if not self._is_sqlite:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that is durable once the block ends; one writer at a time."""
        lock = held(self._lock_file, _BUSY_SECONDS)
        with self._translated(), self._write_lock, lock, self._writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            # the driver's message: SQLAlchemy's own has the statement and its values, which are records
            # one line: psycopg writes one for each address that it has tried, with tabs
            cause = " ".join(str(getattr(error, "orig", None) or error).split())
            raise RecordUnavailable(
                f"the history database cannot be used: {cause}",
                location=self.url.get_backend_name(),
                hint=_hint(cause),
            ) from error

    def size(self) -> int:
        """Return how many bytes it takes on its disk, 0 where that is not known; raise RecordUnavailable."""
        if not self._is_sqlite:
            with self.reading() as connection:
                return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())
        if self._lock_file is None:
            return 0
        with self.reading() as connection:  # the file of a database that does not answer has a size too
            connection.exec_driver_sql("SELECT count(*) FROM sqlite_master")
        file = self._lock_file.with_name(self._lock_file.name.removesuffix(".lock"))
        # the log beside it grows until a checkout, and belongs to it
        return sum(part.stat().st_size for part in (file, Path(f"{file}-wal")) if part.exists())

    def close(self) -> None:
        """Close all connections."""
        self._readers.dispose()
        self._writer.dispose()


_CORRUPT = ("malformed", "not a database")
"""What SQLite says of a damaged file: SQLITE_CORRUPT and SQLITE_NOTADB. SQLITE_IOERR is a full disk as well."""


def _hint(cause: str) -> str:
    if any(text in cause for text in _CORRUPT):
        return "its file is damaged: stop the controller and restore a backup. Nothing is applied meanwhile"
    return "is its disk full, or the server away? Nothing is applied meanwhile"


def _lock_file(database: str | None) -> Path | None:
    """Return the file whose lock a writer of a SQLite file holds; a database in memory belongs to one process."""
    return Path(f"{database}.lock") if database and database != ":memory:" else None


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # or the driver begins transactions where it likes
    cursor = connection.cursor()
    # readers are not blocked by the writer
    cursor.execute("PRAGMA journal_mode=WAL")
    # NORMAL, which WAL is often used with, may lose the last commits at a power failure, and they were acknowledged
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


# seconds between two attempts; a transaction takes a few milliseconds
_POLL = 0.001


@contextlib.contextmanager
def held(file: Path | None, seconds: float) -> Iterator[None]:
    """
    Hold a file's lock; the system releases it when this process ends. None locks nothing.

    Raise RecordUnavailable where another process holds it for longer than ``seconds``.
    """
    if file is None:
        yield
        return
    lock = FileLock(file, mode=0o600)
    try:
        os.stat(file.parent)  # the lock would create an absent folder
        lock.acquire(timeout=seconds, poll_interval=_POLL)
    except Timeout:
        raise RecordUnavailable(
            "another process has been writing to the history database for too long", location=str(file)
        ) from None
    except OSError as error:
        raise RecordUnavailable(
            f"the history database cannot be used: its lock: {error.strerror}",
            location=str(file),
            hint="create the folder, or correct its permissions",
        ) from error
    try:
        yield
    finally:
        lock.release()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that waits for a transaction, and its result."""

    act: Callable[[Connection], Any]
    result: Future[Any] = field(default_factory=Future)


class GroupCommit:
    """
    Run writes in transactions; ``run`` returns once its write is durable.

    While one transaction is committed, the writes of other threads wait; the next transaction takes all of them. Where
    it fails, each of its writes is run again alone, so that one of them fails no other.
    """

    def __init__(self, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._writing = writing
        self._turn = threading.Lock()
        self._waiting: deque[_Write] = deque()

    def run(self, act: Callable[[Connection], T]) -> T:
        """Return the result of a write; raise its error."""
        mine = _Write(act)
        # appended before the lock: the thread that commits next takes it too
        self._waiting.append(mine)
        with self._turn:
            if not mine.result.done():
                # only the writes that wait now: later ones would prolong this transaction without end
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        result: T = mine.result.result()
        return result

    def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            with self._writing() as connection:
                results = [write.act(connection) for write in writes]
        # any exception, also a defect: the threads wait for a result
        except Exception as error:
            if len(writes) == 1:
                writes[0].result.set_exception(error)
            else:
                for write in writes:
                    self._commit([write])
            return
        for write, result in zip(writes, results, strict=True):
            write.result.set_result(result)
