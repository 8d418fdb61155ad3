"""The report as lines that a CI runner shows beside the changed files."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from gitsync.errors import one_line
from gitsync.preview.report import PreviewReport, ReportedChange, ReportedStep

_LIMIT = 500


class Runner(StrEnum):
    """The kinds of CI runner that format annotations in their own way."""

    ACTIONS = "actions"
    """GitHub Actions, and the runners of Forgejo and Gitea, which read the same workflow commands."""
    GITLAB = "gitlab"
    PLAIN = "plain"


def annotate(report: PreviewReport, runner: Runner) -> Iterator[str]:
    """Yield a line for each folder that is not valid and for each new value of a Moderate or Dangerous step."""
    for change in report.changes:
        for text in (*filter(None, (change.problem,)), *change.violations):
            yield _line(runner, "error", _place_in(text), f"{change.roots[0]}: {text}")
        for step in change.steps:
            if step.risk != "Safe":
                yield from _of_step(runner, change, step)


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
    message = one_line(text, _LIMIT)
    if runner is not Runner.ACTIONS:
        return f"{where}: {level}: {message}" if where else f"{level}: {message}"
    place = f" file={_property(file)},line={number}" if file and number.isdecimal() else ""
    return f"::{level}{place}::{_message(message)}"


# The two escapings of workflow commands: https://github.com/actions/toolkit/blob/main/packages/core/src/command.ts
def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
