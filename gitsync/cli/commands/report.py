"""``gitsync report``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from gitsync.cli.applications import all_applications, connect
from gitsync.cli.options import AnyNamespace, ClusterTarget, command
from gitsync.cli.output import Exit
from gitsync.cli.records import open_records
from gitsync.cli.report_formats import ReportFormat, to_text
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.watch import KindCollection
from gitsync.errors import InvalidInput
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.server.queries.filters import parse_moment
from gitsync.services.period_report import WORKLOADS, period_report

_BATCH = 1000


@command
def report(
    place: ClusterTarget,
    since: Annotated[str, typer.Option(help="The start: a duration such as 30d, a date, or RFC 3339.")] = "30d",
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="markdown, html, json, csv or sarif.")
    ] = ReportFormat.MARKDOWN,
    namespace: AnyNamespace = "",
) -> Exit:
    """Report drift, time to repair, decisions, images without a digest and agents without an evaluation."""
    now = SystemClock().now()
    start = parse_moment(since, now)
    if start is None:
        raise InvalidInput(f"{since!r} is not a time", location="--since", hint="write 30d, 18h, or 2026-03-01")
    client = connect(place.cluster)
    applications = all_applications(client, namespace)
    names = {f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in applications}
    with open_records(place.data) as records:
        links = [link for link in _links(records, start) if not namespace or link.application in names]
    sys.stdout.write(to_text(period_report(start, now, links, applications, _objects(client)), output))
    return Exit.OK


def _links(records: SqlRecords, since: datetime) -> Iterator[AuditRecord]:
    """Yield the links of the audit since a time, newest first."""
    before = 0
    while links := records.audit_records(limit=_BATCH, before=before):
        yield from links
        if links[-1].timestamp < since:
            return
        before = links[-1].id


def _objects(client: Client) -> Iterator[Manifest]:
    """Yield the live workloads and Agents of the cluster, those of kinds that it serves."""
    cluster = KubernetesCluster(client)
    for of in WORKLOADS:
        resource = cluster.any_version(of)
        if resource is not None:
            yield from KindCollection(client, resource, "").list().items.values()
