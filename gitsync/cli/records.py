"""The database of history, audit and approvals, for commands that run beside the controller."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitsync.cli.options import load_settings
from gitsync.errors import InvalidInput
from gitsync.record.audit_chain import AuditHeads
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords


@contextlib.contextmanager
def open_records(data: Path) -> Iterator[SqlRecords]:
    """
    Yield the controller's records: in the database of GITSYNC_DATABASE, else of the data folder.

    Raise InvalidInput when there is no such file: opening it would create an empty database.
    """
    url = database_url_of(data)
    records = SqlRecords(RecordDatabase(url), AuditHeads(load_settings(data=data).audit_heads))
    try:
        yield records
    finally:
        records.close()


def database_url_of(data: Path) -> str:
    """Return the URL of the controller's database; raise InvalidInput where its file does not exist."""
    url = load_settings(data=data).database_url
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None and not file.is_file():
        raise InvalidInput(
            f"history database {file} does not exist",
            location="--data",
            hint="run this beside the controller with its --data, or set GITSYNC_DATABASE to its URL",
        )
    return url
