"""``gitsync audit``."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import orjson
import typer

from gitsync.cli.applications import connect, kept_heads
from gitsync.cli.data_folder import open_records
from gitsync.cli.options import NAMESPACE, ClusterTarget, Namespace, RequestOrigin, command
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.requests import user_name
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.objects.record import AuditHead, AuditRecord, Outcome
from gitsync.record.audit_chain import ACCEPT
from gitsync.record.records import SqlRecords
from gitsync.record.tables import audit_body, dump
from gitsync.runtime.clock import SystemClock

_COLUMNS = ("id", "timestamp", "application", "action", "resource", "risk_level", "outcome", "approver", "message")


class AuditFormat(StrEnum):
    """The output formats of the audit."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"
    JSONL = "jsonl"


@command
def audit(
    place: ClusterTarget,
    origin: RequestOrigin,
    output: Annotated[AuditFormat, typer.Option("--output", "-o", help="table, wide, name, json, yaml or jsonl.")] = (
        AuditFormat.TABLE
    ),
    name: Annotated[
        str,
        typer.Argument(
            metavar="APPLICATION|verify|export|accept",
            help="Only this Application; verify: check the chain of hashes; export: all of it; accept: continue a "
            "chain that lost records.",
        ),
    ] = "",
    namespace: Namespace = NAMESPACE,
    limit: Annotated[int, typer.Option(min=1, help="The newest records to list; jsonl always has all.")] = 100,
) -> Exit:
    """List every write and decision, or verify, export or accept the chain of hashes. Exit code 1: it is broken."""
    with open_records(place.data) as records:
        match name:
            case "verify":
                return _verify(records, place)
            case "export":
                return _export(records)
            case "accept":
                return _accept(records, user_name(origin.by, "--by"), origin.reason)
        return _list(records, f"{namespace}/{name}" if name else "", limit, output)


def _list(records: SqlRecords, application: str, limit: int, output: AuditFormat) -> Exit:
    if output is AuditFormat.JSONL:
        for record in records.export(application):
            sys.stdout.write(dump(asdict(record)) + "\n")
        return Exit.OK
    records_shown = [orjson.loads(dump(asdict(record))) for record in records.audit_records(application, limit=limit)]
    if records_shown or output is not AuditFormat.TABLE:
        show(records_shown, _COLUMNS, Format(output.value), key="id")
    else:
        say("no records yet")
    return Exit.OK


def _export(records: SqlRecords) -> Exit:
    """Print every link with the exact text that its hash covers."""
    for link in records.export():
        line = {"id": link.id, "previous": link.previous, "hash": link.hash, "body": audit_body(link)}
        sys.stdout.write(orjson.dumps(line).decode() + "\n")
    return Exit.OK


def _verify(records: SqlRecords, place: ClusterTarget) -> Exit:
    wrong = records.verify(_kept_heads(place))
    for line in wrong:
        say(line, "red")
    if not wrong:
        say("the audit chain is intact", "green")
    return Exit.DIFFERENT if wrong else Exit.OK


def _kept_heads(place: ClusterTarget) -> list[AuditHead]:
    """Return the heads of the chain that the statuses of Applications keep; none while the cluster is unreachable."""
    try:
        with contextlib.closing(connect(place.cluster)) as client:
            return kept_heads(client)
    except GitsyncError as error:
        say(f"not compared with the statuses of Applications: {error}", "yellow")
        return []


def _accept(records: SqlRecords, by: str, reason: str) -> Exit:
    """Record that a user accepts the chain as it is: what other places keep from before no longer counts."""
    if not reason:
        raise InvalidInput("to accept a chain that lost records needs a reason", location="--reason")
    now = SystemClock().now()
    records.audit([AuditRecord("", ACCEPT, "", Outcome.SUCCEEDED, now, "", reasoning=reason, approver=by)])
    say("the audit chain is accepted as it is now")
    return Exit.OK
