"""``gitsync objects``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import FilterWords, Output, Watch, command
from gitsync.cli.output import Exit, Format, repeat, say, show

_NAME = ("kind", "name")
_COLUMNS = ("application", "kind", "namespace", "name", "sync", "health", "reason")


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
        repeat(rows, _COLUMNS, output, key=_NAME)
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, _COLUMNS, output, key=_NAME)
    else:
        say("no objects match")
    return Exit.OK
