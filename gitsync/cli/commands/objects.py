"""``gitsync objects``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import connect, items
from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import DATA, Data, FilterWords, Output, ServerUrl, TokenFile, Watch
from gitsync.cli.output import Exit, Format, repeat, say, show

_NAME = ("kind", "name")
_COLUMNS = ("application", "kind", "namespace", "name", "sync", "health", "reason")


@exit_on_error
def objects(
    words: FilterWords = None,
    limit: Annotated[int, typer.Option(min=1, help="The objects to list, those with problems first.")] = 500,
    watch: Watch = False,
    output: Output = Format.TABLE,
    server: ServerUrl = "",
    token_file: TokenFile = None,
    data: Data = DATA,
) -> Exit:
    """List the objects of all Applications, those with problems first."""
    dashboard = connect(server, token_file, data)

    def rows() -> list[dict[str, Any]]:
        return items(dashboard, "objects", limit, q=" ".join(words or ()))

    if watch:
        repeat(rows, _COLUMNS, output, key=_NAME)
    found = rows()
    if found or output is not Format.TABLE:
        show(found, _COLUMNS, output, key=_NAME)
    else:
        say("no objects match")
    return Exit.OK
