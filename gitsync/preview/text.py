"""The report as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from gitsync.preview.markdown import diff_lines, named_roots, printable
from gitsync.preview.report import PreviewReport, ReportedChange

_STYLES = {"+": "green", "-": "red", "#": "bold"}
_LIMIT = 200


def to_lines(report: PreviewReport) -> Iterator[tuple[str, str]]:
    """Yield the lines of the report, each with its style."""
    yield from _declared(report)
    for change in report.live:
        yield f"in the cluster: {', '.join(change.applications)}  [{change.risk}]", "bold"
        if change.problem:
            yield f"  cannot be compared: {change.problem}", "red"
            continue
        yield from _facts(change)
        if not change.steps:
            yield "  nothing would be written", "green"


def _declared(report: PreviewReport) -> Iterator[tuple[str, str]]:
    folders = f"{len(report.covered)} deployed folder{'' if len(report.covered) == 1 else 's'}"
    if not report.changes:
        yield f"nothing changes in {folders}", "green"
        return
    yield f"{report.base[:12]}..{report.head[:12]}: {report.risk}, {folders} checked", ""
    for change in report.changes:
        yield from _change(change)
    if report.unchanged:
        yield f"unchanged: {', '.join(report.unchanged)}", "dim"


def _change(change: ReportedChange) -> Iterator[tuple[str, str]]:
    yield f"{named_roots(change.roots)}  [{change.risk}]", "bold"
    yield from _facts(change)


def _facts(change: ReportedChange) -> Iterator[tuple[str, str]]:
    if change.problem:
        yield f"  cannot be built: {change.problem}", "red"
    if change.base_problem:
        yield f"  cannot be compared, it was not valid before: {change.base_problem}", "yellow"
    for line in change.violations:
        yield f"  rejected by policy: {line}", "red"
    for effect in change.effects:
        yield f"  {effect.text}", "red" if effect.is_loss else "yellow"
    for step in change.steps:
        yield f"  {step.action} {step.object}  [{step.risk}, rule {step.rule}] {step.reason}", ""
        # without the first one, which names the object again
        for line in diff_lines(step)[1:]:
            yield f"    {printable(line, _LIMIT)}", _STYLES.get(line[:1], "")
