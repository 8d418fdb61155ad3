"""``gitsync report``: a period as Markdown, HTML, JSON, CSV, SARIF 2.1 and PolicyReport objects."""

from __future__ import annotations

import csv
import html
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

import orjson
import typer

from gitsync.cli.applications import all_applications, connect
from gitsync.cli.data_folder import open_records
from gitsync.cli.options import AnyNamespace, ClusterTarget, command
from gitsync.cli.output import Exit
from gitsync.cluster.client import Client
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.watch import KindCollection
from gitsync.errors import InvalidInput, one_line
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord
from gitsync.objects.ref import ObjectRef
from gitsync.record.records import SqlRecords
from gitsync.runtime.clock import SystemClock
from gitsync.server.queries.filters import parse_moment
from gitsync.services.period_report import FORMULA, WORKLOADS, PeriodReport, period_report

_CELL = 200
_Table = tuple[str, tuple[str, ...], Sequence[Sequence[object]]]
"""A title, the names of the columns, and the rows."""
_RULES: Final = {
    "drift": ("note", "A field was changed in the cluster."),
    "unpinned-image": ("warning", "An image has no digest, so that another one may run by its tag."),
    "agent-without-evaluation": ("warning", "An Agent has no evaluation, so that nothing checks its answers."),
}
"""The rules of SARIF: level and description."""


class ReportFormat(StrEnum):
    """The formats of a report."""

    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    CSV = "csv"
    SARIF = "sarif"
    POLICY_REPORT = "policyreport"


def to_text(report: PeriodReport, output: ReportFormat) -> str:
    """Return a report in a format, with a line feed at its end."""
    match output:
        case ReportFormat.MARKDOWN:
            return _markdown(report)
        case ReportFormat.HTML:
            return _html(report)
        case ReportFormat.CSV:
            return _csv(report)
        case ReportFormat.JSON:
            return _json(report)
        case ReportFormat.SARIF:
            return _dump(_sarif(report))
        case ReportFormat.POLICY_REPORT:
            return _dump(_policy_reports(report))


def _tables(report: PeriodReport) -> Iterator[_Table]:
    """Yield the tables of a report."""
    scores = [
        (
            item.application,
            item.score,
            *(f"{share.good}/{share.total}" for share in (item.drift, item.images, item.evaluations, item.decisions)),
        )
        for item in report.scores
    ]
    columns = ("Application", "Score", "Drift ended soon", "Images with digest", "Agents evaluated", "Not refused")
    yield "Scores", columns, scores
    times = [(name, _seconds(report.seconds(share))) for name, share in (("median", 0.5), ("95th percentile", 0.95))]
    yield "Time to the end of drift", ("", "Seconds"), times
    yield "Drift by object", ("Object", "Fields"), report.by_object
    yield "Drift by manager", ("Manager", "Fields"), report.by_manager
    yield "Verdicts", ("Verdict", "Times"), sorted(report.verdicts.items())
    decisions = [
        (f"{item.time:%Y-%m-%d %H:%M}", item.application, item.action, item.person, item.plan, item.reason)
        for item in report.decisions
    ]
    yield "Decisions of users", ("Time", "Application", "Decision", "By", "Plan", "Reason"), decisions
    images = [(item.application, str(item.ref), item.container, item.image) for item in report.images]
    yield "Images without a digest", ("Application", "Object", "Container", "Image"), images
    yield "Agents without an evaluation", ("Agent",), [(str(ref),) for ref in report.unevaluated]


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.1f}"


def _title(report: PeriodReport) -> str:
    return f"gitsync report, {report.since:%Y-%m-%d %H:%M} to {report.until:%Y-%m-%d %H:%M} UTC"


def _markdown(report: PeriodReport) -> str:
    lines = [f"# {_title(report)}", "", f"Score: {FORMULA}."]
    for title, columns, rows in _tables(report):
        lines += ["", f"## {title}", ""]
        if not rows:
            lines.append("None.")
            continue
        lines += [_row(columns), _row(["---"] * len(columns)), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Iterable[object]) -> str:
    # a bar would end the cell, and names of objects and people come from others
    texts = (html.escape(one_line(str(cell), _CELL), quote=False).replace("|", "&#124;") for cell in cells)
    return f"| {' | '.join(texts)} |"


def _html(report: PeriodReport) -> str:
    parts = [
        f"<!doctype html>\n<html lang=en><meta charset=utf-8><title>{html.escape(_title(report))}</title>",
        "<style>body{font:1rem system-ui;margin:2rem auto;max-width:70rem}table{border-collapse:collapse}"
        "td,th{border-bottom:1px solid #ccc;padding:.3rem .8rem;text-align:left}</style>",
        f"<h1>{html.escape(_title(report))}</h1>\n<p>Score: {html.escape(FORMULA)}.</p>",
    ]
    for title, columns, rows in _tables(report):
        parts.append(f"<h2>{html.escape(title)}</h2>")
        if not rows:
            parts.append("<p>None.</p>")
            continue
        head = "".join(f"<th scope=col>{html.escape(column)}</th>" for column in columns)
        body = "\n".join(
            f"<tr>{''.join(f'<td>{html.escape(one_line(str(cell), _CELL))}</td>' for cell in row)}</tr>" for row in rows
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>")
    return "\n".join(parts) + "\n</html>\n"


def _csv(report: PeriodReport) -> str:
    """Return the rows of all tables; the first column names the table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for title, columns, rows in _tables(report):
        writer.writerow(["Table", *columns])
        writer.writerows([title, *map(_plain, row)] for row in rows)
    return text.getvalue()


def _plain(cell: object) -> str:
    text = one_line(str(cell), _CELL)
    # a spreadsheet runs a cell that begins so as a formula
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) and text != "-" else text


def _json(report: PeriodReport) -> str:
    return _dump(
        {
            "since": report.since.isoformat(),
            "until": report.until.isoformat(),
            "formula": FORMULA,
            "scores": [
                {
                    "application": item.application,
                    "score": item.score,
                    "drift": item.drift.value,
                    "images": item.images.value,
                    "evaluations": item.evaluations.value,
                    "decisions": item.decisions.value,
                }
                for item in report.scores
            ],
            "secondsToEnd": {"median": report.seconds(0.5), "p95": report.seconds(0.95)},
            "drift": [
                {
                    "application": item.application,
                    "object": str(item.ref),
                    "pod": item.pod,
                    "path": item.path,
                    "from": item.declared,
                    "to": item.changed_to,
                    "manager": item.manager,
                    "detected": item.detected.isoformat(),
                    "ended": item.ended.isoformat(),
                    "by": item.by.value,
                    "seconds": item.seconds,
                }
                for item in report.drift
            ],
            "byObject": dict(report.by_object),
            "byManager": dict(report.by_manager),
            "verdicts": dict(report.verdicts),
            "decisions": [
                {
                    "application": item.application,
                    "decision": item.action,
                    "by": item.person,
                    "time": item.time.isoformat(),
                    "plan": item.plan,
                    "reason": item.reason,
                }
                for item in report.decisions
            ],
            "unpinnedImages": [
                {
                    "application": item.application,
                    "object": str(item.ref),
                    "container": item.container,
                    "image": item.image,
                }
                for item in report.images
            ],
            "agentsWithoutEvaluation": [str(ref) for ref in report.unevaluated],
        }
    )


def _sarif(report: PeriodReport) -> dict[str, Any]:
    """
    Return a log of SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.

    Objects are logical locations: a report knows no file.
    """
    rules = [
        {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for name, (level, text) in _RULES.items()
    ]
    results = [_result(item.rule, f"{item.ref}: {item.text}", item.ref.path) for item in _violations(report)]
    driver = {"name": "gitsync", "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _result(rule: str, text: str, path: str) -> dict[str, Any]:
    location = {"logicalLocations": [{"fullyQualifiedName": path, "kind": "resource"}]}
    return {
        "ruleId": rule,
        "level": _RULES[rule][0],
        "message": {"text": one_line(text, _CELL)},
        "locations": [location],
    }


@dataclass(frozen=True, slots=True)
class _Violation:
    """What a report has against an object: a rule of ``_RULES``, and what is wrong since when."""

    rule: str
    ref: ObjectRef
    text: str
    time: datetime


def _violations(report: PeriodReport) -> Iterator[_Violation]:
    for item in report.drift:
        text = f"{item.path or 'the object'} was changed by {item.manager or 'an unknown manager'}"
        if item.pod:
            text = f"Pod {item.pod} {item.changed_to}"
        yield _Violation("drift", item.ref, text, item.ended)
    for use in report.images:
        yield _Violation("unpinned-image", use.ref, f"image {use.image} of {use.container} has no digest", report.until)
    for ref in report.unevaluated:
        yield _Violation("agent-without-evaluation", ref, "it has no evaluation", report.until)


def _policy_reports(report: PeriodReport) -> dict[str, Any]:
    """
    Return a List of PolicyReports, one for each namespace, and of a ClusterPolicyReport for objects without one.

    They are of wgpolicyk8s.io/v1alpha2, which viewers such as Policy Reporter read
    (https://github.com/kubernetes-sigs/wg-policy-prototypes/tree/master/policy-report).
    """
    by_namespace: dict[str, list[_Violation]] = defaultdict(list)
    for item in _violations(report):
        by_namespace[item.ref.namespace].append(item)
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_policy_report(namespace, items) for namespace, items in sorted(by_namespace.items())],
    }


def _policy_report(namespace: str, violations: Sequence[_Violation]) -> dict[str, Any]:
    results = [
        {
            "source": "gitsync",
            "policy": item.rule,
            "result": "fail" if _RULES[item.rule][0] == "warning" else "warn",
            "severity": "medium" if _RULES[item.rule][0] == "warning" else "info",
            "message": one_line(item.text, _CELL),
            # without an apiVersion: a reference of the audit has only a group
            "resources": [
                {"kind": item.ref.kind, "name": item.ref.name, **({"namespace": namespace} if namespace else {})}
            ],
            "properties": {"group": item.ref.group},
            "timestamp": {"seconds": int(item.time.timestamp()), "nanos": 0},
        }
        for item in violations
    ]
    counts = Counter(result["result"] for result in results)
    return {
        "apiVersion": "wgpolicyk8s.io/v1alpha2",
        "kind": "PolicyReport" if namespace else "ClusterPolicyReport",
        "metadata": {"name": "gitsync", **({"namespace": namespace} if namespace else {})},
        "summary": {name: counts[name] for name in ("pass", "fail", "warn", "error", "skip")},
        "results": results,
    }


def _dump(document: object) -> str:
    return orjson.dumps(document, option=orjson.OPT_INDENT_2, default=str).decode() + "\n"


_BATCH = 1000


@command
def report(
    place: ClusterTarget,
    since: Annotated[str, typer.Option(help="The start: a duration such as 30d, a date, or RFC 3339.")] = "30d",
    output: Annotated[
        ReportFormat, typer.Option("--output", "-o", help="markdown, html, json, csv, sarif or policyreport.")
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
