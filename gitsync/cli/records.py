"""The database of history, audit and approvals, when it is within reach of the command line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from gitsync.cli.options import load_settings
from gitsync.errors import InvalidInput
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords


@contextlib.contextmanager
def open_records(data: Path) -> Iterator[SqlRecords]:
    """
    Yield the records that the controller writes: GITSYNC_DATABASE's, else those in the data folder.

    Raise InvalidInput where there is no such file: opening it would make an empty one, and answer wrongly.
    """
    url = load_settings(data=data).database_url
    file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None
    if file is not None and not file.is_file():
        raise InvalidInput(
            f"there is no history database {file}",
            location="--data",
            hint="run this beside the controller with its --data, or set GITSYNC_DATABASE to its URL",
        )
    records = SqlRecords(Database(url))
    try:
        yield records
    finally:
        records.close()
