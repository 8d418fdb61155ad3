"""Lists over all Applications: ``gitsync objects``, ``agents``, ``changes`` and ``prs``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import Dashboard, DashboardOptions, items
from gitsync.cli.options import FilterWords, Output, Watch, command
from gitsync.cli.output import Exit, Format, repeat, say, show, to_json
from gitsync.errors import InvalidInput
from gitsync.preview.report import PreviewReport
from gitsync.preview.text import to_lines

_OBJECT_NAME = ("kind", "name")
_OBJECT_COLUMNS = ("application", "kind", "namespace", "name", "sync", "health", "reason")


@command
def objects(
    dashboard: DashboardOptions,
    words: FilterWords = None,
    limit: Annotated[int, typer.Option(min=1, help="The objects to list, those with problems first.")] = 500,
    watch: Watch = False,
    output: Output = Format.TABLE,
) -> Exit:
    """List the objects of all Applications, those with problems first."""
    running = dashboard.require()

    def rows() -> list[dict[str, Any]]:
        return items(running, "objects", limit, q=" ".join(words or ()))

    if watch:
        repeat(rows, _OBJECT_COLUMNS, output, key=_OBJECT_NAME)
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, _OBJECT_COLUMNS, output, key=_OBJECT_NAME)
    else:
        say("no objects match")
    return Exit.OK


_ENVIRONMENTS = ("agent", "environment", "model", "endpoint", "prompt", "tools", "differs")
_AGENT_NAME = ("namespace", "name")
_AGENT_COLUMNS = (
    *_AGENT_NAME,
    "phase",
    "ready",
    "model",
    "serving",
    "evaluation",
    "candidate",
    "traffic",
    "failed",
    "failedEvaluation",
)


@command
def agents(
    dashboard: DashboardOptions,
    words: FilterWords = None,
    limit: Annotated[int, typer.Option(min=1, help="The agents to list, by namespace and name.")] = 500,
    environments: Annotated[
        bool, typer.Option("--environments", help="Each agent by environment, and what is not as in the one before.")
    ] = False,
    watch: Watch = False,
    output: Output = Format.TABLE,
) -> Exit:
    """List the agents of all Applications: state, model, revisions that serve, are tried and failed."""
    running = dashboard.require()
    path, columns = ("agents/environments", _ENVIRONMENTS) if environments else ("agents", _AGENT_COLUMNS)

    def rows() -> list[dict[str, Any]]:
        return items(running, path, limit, q=" ".join(words or ()))

    if watch:
        repeat(rows, columns, output, key=_AGENT_NAME)
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, columns, output, key=_AGENT_NAME)
    else:
        say("no agents match")
    return Exit.OK


_CHANGE_COLUMNS = ("time", "kind", "title", "people", "applications", "outcome")


@command
def changes(
    dashboard: DashboardOptions,
    words: FilterWords = None,
    since: Annotated[str, typer.Option(help="Only changes since then: 18h, 7d, a date, or a time in RFC 3339.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="The newest changes to list.")] = 100,
    watch: Watch = False,
    output: Output = Format.TABLE,
) -> Exit:
    """List commits with their syncs, drift, decisions and requests, newest first."""
    running = dashboard.require()
    query = " ".join([*(words or ()), *([f"since:{since}"] if since else [])])

    def rows() -> list[dict[str, Any]]:
        return [_change_row(item, output) for item in items(running, "changes", limit, q=query)]

    if watch:
        repeat(rows, _CHANGE_COLUMNS, output, key="time")
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, _CHANGE_COLUMNS, output, key="time")
    else:
        say("no changes match" if query else "nothing was synced yet")
    return Exit.OK


def _change_row(item: dict[str, Any], output: Format) -> dict[str, Any]:
    """Return a change with its applications and their outcomes, each once; tables have times that are easy to read."""
    shown = item["time"][:19].replace("T", " ") + "Z"
    return {
        **item,
        "time": item["time"] if output in (Format.JSON, Format.YAML) else shown,
        "applications": list(dict.fromkeys(result["application"] for result in item["results"])),
        "outcome": list(dict.fromkeys(result["state"] for result in item["results"])),
    }


_PULL_COLUMNS = ("name", "title", "author", "state", "risk", "objects", "applications")
_MOST_PULLS = 500


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
    rows = items(running, "pulls", _MOST_PULLS)
    if name:
        return _one_pull(running, rows, name, output)
    if rows or output is not Format.TABLE:
        show(rows, _PULL_COLUMNS, output, key="name")
    else:
        say("no pull requests wait")
    return Exit.OK


def _one_pull(running: Dashboard, rows: list[dict[str, Any]], name: str, output: Format) -> Exit:
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
