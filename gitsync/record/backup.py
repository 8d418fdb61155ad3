"""
A backup of the records as text, the same for SQLite and PostgreSQL, so that it also moves them from one to the other.

The first line has the version, each further one a row with the name of its table, and the last one how many rows each
table has: a file that was cut off is refused. What the cluster or Git holds anyway is not in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
from sqlalchemy import Connection, func, select

from gitsync import __version__
from gitsync.errors import InvalidInput
from gitsync.record.audit_chain import broken
from gitsync.record.database import RecordDatabase
from gitsync.record.tables import ADVICE, AUDIT, CHAIN, HISTORY, REVIEWS, VIEWS

_FORMAT: Final = 1
_TABLES: Final = {table.name: table for table in (HISTORY, AUDIT, CHAIN, REVIEWS, ADVICE, VIEWS)}
_NUMBERED: Final = (HISTORY, ADVICE)
"""The tables whose ids the database counts by itself."""
_BATCH: Final = 1000
"""Rows that are read and written at a time: a table may be larger than memory."""
_DAMAGED: Final = "make another backup: gitsync backup FILE"


def dump_records(database: RecordDatabase) -> Iterator[bytes]:
    """Yield the lines of a backup, as the database is at one moment; raise RecordUnavailable where that fails."""
    counts = Counter[str]()
    yield _line({"gitsync": __version__, "format": _FORMAT})
    with database.snapshot() as connection:
        for name, table in _TABLES.items():
            rows = connection.execution_options(yield_per=_BATCH).execute(select(table).order_by(*table.primary_key))
            for row in rows.mappings():
                counts[name] += 1
                yield _line([name, dict(row)])
    yield _line({"rows": dict(counts)})


def load_records(database: RecordDatabase, lines: Iterable[bytes]) -> Mapping[str, int]:
    """
    Write a backup into an empty database and return the rows of each table.

    Raise InvalidInput, with nothing written, where the database has records, or the backup is damaged: its audit chain
    is verified as it was written.
    """
    with database.writing() as connection:
        if any(connection.execute(select(func.count()).select_from(table)).scalar_one() for table in (AUDIT, HISTORY)):
            raise InvalidInput("the database has records already", hint="restore into an empty one")
        # the row of an empty chain, which the backup has its own of
        connection.execute(CHAIN.delete())
        counts = _load(connection, lines)
        # before the chain is read: that leaves the connection with server-side cursors, which nothing here closes
        if not database.is_sqlite:
            _continue_ids(connection)
        if problems := tuple(broken(connection)):
            raise InvalidInput(f"the audit in the backup is damaged: {problems[0]}", hint=_DAMAGED)
    return counts


def _load(connection: Connection, lines: Iterable[bytes]) -> Counter[str]:
    """Write the rows of a backup; raise InvalidInput unless it is complete."""
    parts = (_parsed(line) for line in lines)
    header = next(parts, None)
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise InvalidInput("the file is not a backup of gitsync that this version reads")
    counts = Counter[str]()
    batch: list[dict[str, Any]] = []
    previous_name = ""
    for part in parts:
        if isinstance(part, dict):
            _insert(connection, previous_name, batch)
            if part.get("rows") != dict(counts):
                raise InvalidInput("rows are missing in the backup", hint=_DAMAGED)
            return counts
        name, row = part
        if name != previous_name or len(batch) == _BATCH:
            _insert(connection, previous_name, batch)
            batch = []
        previous_name = name
        batch.append(row)
        counts[name] += 1
    raise InvalidInput("the backup ends too early", hint=_DAMAGED)


def _insert(connection: Connection, name: str, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    table = _TABLES.get(name)
    if table is None:
        raise InvalidInput(f"the backup has a table {name!r} that this version does not know", hint="use a newer one")
    connection.execute(table.insert(), rows)


def _continue_ids(connection: Connection) -> None:
    """Have PostgreSQL count on from the restored ids: rows that bring their own do not move its sequences."""
    for table in _NUMBERED:
        highest = select(func.coalesce(func.max(table.c.id), 0) + 1).scalar_subquery()
        sequence = func.pg_get_serial_sequence(table.name, "id")
        # not called yet: the next id is exactly this one
        connection.execute(select(func.setval(sequence, highest, False)))


def _line(value: Any) -> bytes:
    # names of tables and columns are of a subclass of str, which orjson does not take as a key otherwise
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS) + b"\n"


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput("a line of the backup is damaged", hint=_DAMAGED) from error
