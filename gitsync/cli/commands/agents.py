"""``gitsync agents``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import FilterWords, Output, Watch, command
from gitsync.cli.output import Exit, Format, repeat, say, show

_ENVIRONMENTS = ("agent", "environment", "model", "endpoint", "prompt", "tools", "differs")
_NAME = ("namespace", "name")
_COLUMNS = (
    *_NAME,
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
    path, columns = ("agents/environments", _ENVIRONMENTS) if environments else ("agents", _COLUMNS)

    def rows() -> list[dict[str, Any]]:
        return items(running, path, limit, q=" ".join(words or ()))

    if watch:
        repeat(rows, columns, output, key=_NAME)
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, columns, output, key=_NAME)
    else:
        say("no agents match")
    return Exit.OK
