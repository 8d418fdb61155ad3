"""``gitsync backup`` and ``gitsync restore``."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.data_folder import database_url_of, lock_data
from gitsync.cli.options import ClusterTarget, command, load_settings
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput
from gitsync.record.backup import dump_records, load_records
from gitsync.record.database import RecordDatabase

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the backup, such as gitsync.backup.gz.")]


@command
def backup(place: ClusterTarget, file: _File) -> Exit:
    """Write history, audit, approvals and answers of reasoners into one file, also while the controller runs."""
    with closing(RecordDatabase(database_url_of(place.data))) as database:
        # beside the file, and renamed at its end: a backup that fails leaves the previous one
        descriptor, draft = tempfile.mkstemp(dir=file.absolute().parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "wb") as stream, gzip.GzipFile(fileobj=stream, mode="wb", filename="") as packed:
                packed.writelines(dump_records(database))
            Path(draft).replace(file)
        finally:
            Path(draft).unlink(missing_ok=True)
    say(f"wrote {file}: {file.stat().st_size} bytes; prove it with: gitsync restore --check {file}", "green")
    return Exit.OK


@command
def restore(
    place: ClusterTarget,
    file: _File,
    check: Annotated[
        bool, typer.Option("--check", help="Restore into a temporary database only, which proves the backup.")
    ] = False,
) -> Exit:
    """Restore a backup into the empty database of a controller that is stopped, of either kind."""
    if check:
        with tempfile.TemporaryDirectory() as folder:
            return _restored(f"sqlite:///{folder}/history.db", file, "is complete, and its audit verifies")
    settings = load_settings(data=place.data)
    # a controller of this folder would write meanwhile
    with lock_data(settings.data):
        return _restored(settings.database_url, file, "is restored; start the controller")


def _restored(url: str, file: Path, text: str) -> Exit:
    with closing(RecordDatabase(url)) as database:
        counts = load_records(database, _lines(file))
    say(f"{file} {text}: {counts.get('history', 0)} syncs, {counts.get('audit', 0)} audit records", "green")
    return Exit.OK


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with gzip.open(file) as lines:
            yield from lines
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidInput(f"cannot read the backup: {error}", location=str(file)) from error
