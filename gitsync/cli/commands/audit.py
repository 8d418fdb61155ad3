"""``gitsync audit``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import orjson
import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, NAMESPACE, Data, Namespace
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.records import open_records
from gitsync.record.serialization import dump

_COLUMNS = ("id", "timestamp", "application", "action", "resource", "risk_level", "outcome", "approver", "message")


class AuditFormat(StrEnum):
    """The output formats of the audit."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"


@exit_on_error
def audit(
    name: Annotated[
        str,
        typer.Argument(metavar="APPLICATION|verify", help="Only this Application; verify: check the chain of hashes."),
    ] = "",
    namespace: Namespace = NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, help="The newest records to list; jsonl always has all.")] = 100,
    output: Annotated[AuditFormat, typer.Option("--output", "-o", help="table, json, yaml or jsonl.")] = (
        AuditFormat.TABLE
    ),
    data: Data = DATA,
) -> Exit:
    """List every write and decision, or verify the chain of hashes. Exit code 1: the chain is broken."""
    if name == "verify":
        return _verify(data)
    application = f"{namespace}/{name}" if name else ""
    with open_records(data) as records:
        if output is AuditFormat.JSONL:
            for record in records.export(application):
                sys.stdout.write(dump(asdict(record)) + "\n")
            return Exit.OK
        found = [orjson.loads(dump(asdict(record))) for record in records.audit_records(application, limit=limit)]
    if found or output is not AuditFormat.TABLE:
        show(found, _COLUMNS, Format(output.value))
    else:
        say("no records yet")
    return Exit.OK


def _verify(data: Path) -> Exit:
    with open_records(data) as records:
        wrong = records.verify()
    for line in wrong:
        say(line, "red")
    if not wrong:
        say("the audit chain is intact", "green")
    return Exit.DIFFERENT if wrong else Exit.OK
