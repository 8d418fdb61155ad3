"""Writes of several threads share transactions, and one that fails fails no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from gitsync.record.database import Database
from gitsync.record.group_commit import GroupCommit
from gitsync.record.tables import CHAIN
from tests.waiting import until


class Transactions:
    """Transactions of a database, counted; the first one is held open until ``go_on`` is set."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.count = 0
        self.go_on = threading.Event()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection in a transaction."""
        self.count += 1
        with self._database.writing() as connection:
            yield connection
            assert self.go_on.wait(30)


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


def test_writes_that_wait_share_one_transaction(database: Database) -> None:
    transactions = Transactions(database)
    assert sorted(map(str, run_behind(transactions, [increment] * 3))) == ["1", "2", "3"]
    assert transactions.count == 2


def test_a_write_that_fails_is_undone_and_fails_no_other(database: Database) -> None:
    transactions = Transactions(database)
    results = run_behind(transactions, [increment, fail, increment])
    assert isinstance(results[1], ZeroDivisionError)
    assert sorted(map(str, (results[0], results[2]))) == ["1", "2"]
    with database.reading() as connection:
        assert connection.execute(CHAIN.select()).one().length == 2


def test_the_error_of_a_single_write_is_raised(database: Database) -> None:
    with pytest.raises(ZeroDivisionError):
        GroupCommit(database.writing).run(fail)
