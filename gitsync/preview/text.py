"""The report as lines: for a terminal, and for a CI runner, which shows them beside the changed files."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from gitsync.errors import one_line
from gitsync.preview.documents import diff_lines, named_roots, printable
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedRehearsal, ReportedStep

_STYLES = {"+": "green", "-": "red", "#": "bold"}
_LIMIT = 200
_LONGEST = 10_000
"""Characters of a line: the folders in which nothing changes are named in one."""


def to_lines(report: PreviewReport) -> Iterator[tuple[str, str]]:
    """Yield the lines of the report, each with its style; control characters of the change are escaped."""
    for line, style in _lines(report):
        yield printable(line, _LONGEST), style


def _lines(report: PreviewReport) -> Iterator[tuple[str, str]]:
    yield from _declared(report)
    for change in report.live:
        yield f"in the cluster: {', '.join(change.applications)}  [{change.risk}]", "bold"
        if change.problem:
            yield f"  cannot be compared: {change.problem}", "red"
            continue
        yield from _facts(change)
        if not change.steps:
            yield "  nothing would be written", "green"
    if report.rehearsal is not None:
        yield from _rehearsed(report.rehearsal)


def _rehearsed(rehearsal: ReportedRehearsal) -> Iterator[tuple[str, str]]:
    if not rehearsal.refusals:
        yield "rehearsal: nothing is refused, and a revert brings everything back", "green"
    for refusal in rehearsal.refusals:
        where = f"   # {refusal.where}" if refusal.where else ""
        yield f"rehearsal: {refusal.folder}: {refusal.step} {refusal.object}: {refusal.problem}{where}", "red"
    if rehearsal.not_judged:
        yield f"not judged: {', '.join(rehearsal.not_judged)}", "yellow"


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


_MAX_MESSAGE = 500


class Runner(StrEnum):
    """The kinds of CI runner that format annotations in their own way."""

    ACTIONS = "actions"
    """GitHub Actions, and the runners of Forgejo and Gitea, which read the same workflow commands."""
    GITLAB = "gitlab"
    PLAIN = "plain"


def annotate(report: PreviewReport, runner: Runner) -> Iterator[str]:
    """Yield a line for each folder that is not valid, each new value of a step that is not Safe, and each refusal."""
    for change in report.changes:
        for text in (*filter(None, (change.problem,)), *change.violations):
            yield _line(runner, "error", _place_in(text), f"{change.roots[0]}: {text}")
        for step in change.steps:
            if step.risk != "Safe":
                yield from _of_step(runner, change, step)
    for refusal in report.rehearsal.refusals if report.rehearsal is not None else ():
        level = "warning" if refusal.step == "revert" else "error"
        text = f"{refusal.step} of {refusal.object} in {refusal.folder}: {refusal.problem}"
        yield _line(runner, level, refusal.where, text)


def _of_step(runner: Runner, change: ReportedChange, step: ReportedStep) -> Iterator[str]:
    places = dict.fromkeys(filter(None, (step.where, *(field.where for field in step.fields))))
    # A step whose place is unknown is reported without one.
    for where in places or ("",):
        yield _line(runner, "warning", where, f"{step.risk}: {step.object} in {change.roots[0]}: {step.reason}")


def _place_in(text: str) -> str:
    """Return ``file:line`` at the start of an error, empty where it begins otherwise."""
    file, _, rest = text.partition(":")
    line = rest.partition(":")[0]
    return f"{file}:{line}" if line.isdecimal() and " " not in file else ""


def _line(runner: Runner, level: str, where: str, text: str) -> str:
    file, _, number = where.rpartition(":")
    message = one_line(text, _MAX_MESSAGE)
    if runner is not Runner.ACTIONS:
        return f"{where}: {level}: {message}" if where else f"{level}: {message}"
    place = f" file={_property(file)},line={number}" if file and number.isdecimal() else ""
    return f"::{level}{place}::{_message(message)}"


# The two escapings of workflow commands: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
