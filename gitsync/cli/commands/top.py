"""``gitsync top``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gitsync.cli.dashboard import DashboardOptions, items
from gitsync.cli.options import Output, command
from gitsync.cli.output import Exit, Format, say, show

_NAME = ("namespace", "name")
_RENAMED = ("stages", "cpuSeconds", "apiRequests")
_COLUMNS = ("namespace", "name", "objects", "reconciles", "partial", "requests", "cpu", "seconds", "slowest")


@command
def top(
    dashboard: DashboardOptions,
    limit: Annotated[int, typer.Option(min=1, help="The Applications to list, the most CPU time first.")] = 20,
    output: Output = Format.TABLE,
) -> Exit:
    """Show which Applications cost the controller most: reconciles, requests, CPU time, slowest stage."""
    costs = items(dashboard.require(), "costs", limit)
    if not costs and output is Format.TABLE:
        say("no Applications")
        return Exit.OK
    rows = map(_row, costs) if output in (Format.TABLE, Format.WIDE) else costs
    show(rows, _COLUMNS, output, key=_NAME)
    return Exit.OK


def _row(item: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table, with a column for each stage in a wide one."""
    stages = {stage: f"{spent['seconds']:.3f}" for stage, spent in item["stages"].items()}
    slowest = f"{item['slowest']} {stages.get(item['slowest'], '')}".strip()
    shown = {"requests": item["apiRequests"], "cpu": f"{item['cpuSeconds']:.3f}", "seconds": f"{item['seconds']:.3f}"}
    return {name: value for name, value in item.items() if name not in _RENAMED} | shown | {"slowest": slowest} | stages
