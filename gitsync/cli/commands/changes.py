"""``gitsync changes``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import FilterWords, Output, Watch, command
from gitsync.cli.output import Exit, Format, repeat, say, show

_COLUMNS = ("time", "kind", "title", "people", "applications", "outcome")


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
        return [_row(item, output) for item in items(running, "changes", limit, q=query)]

    if watch:
        repeat(rows, _COLUMNS, output, key="time")
    listed = rows()
    if listed or output is not Format.TABLE:
        show(listed, _COLUMNS, output, key="time")
    else:
        say("no changes match" if query else "nothing was synced yet")
    return Exit.OK


def _row(item: dict[str, Any], output: Format) -> dict[str, Any]:
    """Return a change with its applications and their outcomes, each once; tables have times that are easy to read."""
    shown = item["time"][:19].replace("T", " ") + "Z"
    return {
        **item,
        "time": item["time"] if output in (Format.JSON, Format.YAML) else shown,
        "applications": list(dict.fromkeys(result["application"] for result in item["results"])),
        "outcome": list(dict.fromkeys(result["state"] for result in item["results"])),
    }
