"""``gitsync agents``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, Data, FilterWords, Output, ServerUrl, TokenFile, Watch
from gitsync.cli.output import Exit, Format, say, show
from gitsync.cli.queries.connection import connect, items
from gitsync.cli.watch import repeat

_COLUMNS = ("namespace", "name", "phase", "ready", "model", "revision", "traffic", "evaluation")


@exit_on_error
def agents(
    words: FilterWords = None,
    limit: Annotated[int, typer.Option(min=1, help="The agents to list, by namespace and name.")] = 500,
    watch: Watch = False,
    output: Output = Format.TABLE,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    data: Data = DATA,
) -> Exit:
    """List the agents of all Applications: state, model, revision, rollout, evaluation."""
    dashboard = connect(server, token_file, data)

    def rows() -> list[dict[str, Any]]:
        return items(dashboard, "agents", limit, q=" ".join(words or ()))

    if watch:
        repeat(rows, _COLUMNS, output)
    found = rows()
    if found or output is not Format.TABLE:
        show(found, _COLUMNS, output, key=("namespace", "name"))
    else:
        say("no agents match")
    return Exit.OK
