"""``gitsync prs``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import Dashboard, DashboardOptions, items
from gitsync.cli.options import Output, command
from gitsync.cli.output import Exit, Format, say, show, to_json
from gitsync.errors import InvalidInput
from gitsync.preview.report import PreviewReport
from gitsync.preview.text import to_lines

_COLUMNS = ("name", "title", "author", "state", "risk", "objects", "applications")
_MOST = 500


@command
def prs(
    dashboard: DashboardOptions,
    name: Annotated[
        str, typer.Argument(metavar="[NUMBER|BRANCH]", help="One of them: what it will do; by default all are listed.")
    ] = "",
    output: Output = Format.TABLE,
) -> Exit:
    """List the pull requests that wait, with what they will do, or show one of them. Exit code 2: it is not valid."""
    running = dashboard.require()
    rows = items(running, "pulls", _MOST)
    if name:
        return _one(running, rows, name, output)
    if rows or output is not Format.TABLE:
        show(rows, _COLUMNS, output, key="name")
    else:
        say("no pull requests wait")
    return Exit.OK


def _one(running: Dashboard, rows: list[dict[str, Any]], name: str, output: Format) -> Exit:
    matching = [row for row in rows if name in (row["name"], row["name"].removeprefix("#"), row["key"])]
    if len(matching) != 1:
        problem = "waits in several repositories" if matching else "does not wait"
        raise InvalidInput(f"pull request {name!r} {problem}", hint="see `gitsync prs -o wide`, and give its key")
    detail = running.get(f"/api/v1/pulls/{matching[0]['key']}")
    if output in (Format.JSON, Format.YAML):
        print(to_json(detail))
    elif detail["report"] is None:
        say(detail["problem"], "red")
    else:
        for line, style in to_lines(PreviewReport.model_validate(detail["report"])):
            say(line, style)
    return Exit.OK if detail["state"] == "Valid" else Exit.INVALID
