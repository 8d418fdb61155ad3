"""A database of each kind: SQLite always, PostgreSQL where its server programs are installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.record.tables import METADATA


def drop_tables(database: RecordDatabase) -> None:
    with database.writing() as connection:
        METADATA.drop_all(connection)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/records.db"
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def database(url: str) -> Iterator[RecordDatabase]:
    database = RecordDatabase(url)
    yield database
    if not url.startswith("sqlite"):
        drop_tables(database)
    database.close()


@pytest.fixture
def records(database: RecordDatabase) -> SqlRecords:
    return SqlRecords(database)
