"""``gitsync audit``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import orjson

from gitsync.cli.options import AuditFormat
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.records import open_records
from gitsync.record.serialization import dump

_COLUMNS = ("id", "timestamp", "application", "action", "resource", "risk_level", "outcome", "approver", "message")


def audit(application: str, limit: int, output: AuditFormat, data: Path) -> Exit:
    """Print audit records, newest first; as JSON lines the whole chain, oldest first, as it is exported."""
    with open_records(data) as records:
        if output is AuditFormat.JSONL:
            for record in records.export(application):
                sys.stdout.write(dump(asdict(record)) + "\n")
            return Exit.OK
        found = [orjson.loads(dump(asdict(record))) for record in records.audit_records(application, limit=limit)]
    if found or output is not AuditFormat.TABLE:
        show(found, _COLUMNS, Format(output.value))
    else:
        say("nothing was written yet")
    return Exit.OK


def verify(data: Path) -> Exit:
    """Check the chain of hashes over the whole audit."""
    with open_records(data) as records:
        wrong = records.verify()
    for line in wrong:
        say(line, "red")
    if not wrong:
        say("the audit is whole", "green")
    return Exit.DIFFERENT if wrong else Exit.OK
