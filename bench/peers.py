"""
gitsync beside Flux and Argo CD in one run, as a table in Markdown: ``python -m bench.peers [COUNT ...]``.

``GITSYNC_PEERS`` names a program that runs one tool alone: ``PROGRAM gitsync|flux|argocd COUNT [--big OBJECTS]``
appends a row in JSON to the file ``OUT`` for each measurement. Nothing is built here, and without the program nothing
is run.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TOOLS = ("gitsync", "flux", "argocd")
COUNTS = (100, 1000)
_BIG = 2000
"""Objects of the one Application that is measured too."""
_LONGEST = 3600
"""Seconds after which a tool is given up; what it has reported until then is kept."""

Row = Mapping[str, Any]


def main(counts: Iterable[int] = COUNTS) -> None:
    """Run each tool with each number of Applications, and print a table for each."""
    program = os.environ.get("GITSYNC_PEERS", "")
    if not program:
        print("skipped: GITSYNC_PEERS names no program that runs the peers")
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.jsonl")
        for count in counts:
            for tool in TOOLS:
                _run([program, tool, str(count)], out)
        for tool in TOOLS:
            _run([program, tool, "1", "--big", str(_BIG), "--hang", "0"], out)
        print(table(map(json.loads, out.read_text().splitlines())))


def _run(command: list[str], out: Path) -> None:
    try:
        subprocess.run(command, env={**os.environ, "OUT": str(out)}, stdout=sys.stderr, check=False, timeout=_LONGEST)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command[1:])}: not within {_LONGEST} s", file=sys.stderr)


def table(rows: Iterable[Row]) -> str:
    """Return rows as a table in Markdown, one line for each size and measurement, one column for each tool."""
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        size = f"1 x {row['big']:,}" if row["big"] else f"{row['n']:,} x 4"
        for label, text in _cells(row):
            cells.setdefault((size, label), {})[row["tool"]] = text
    lines = ["| Applications x objects | row | gitsync | Flux | Argo CD |", "|---|---|---|---|---|"]
    last = ""
    for (size, label), by_tool in cells.items():
        columns = " | ".join(by_tool.get(tool, "not reached") for tool in TOOLS)
        lines.append(f"| {'' if size == last else size} | {label} | {columns} |")
        last = size
    return "\n".join(lines)


def _cells(row: Row) -> Iterable[tuple[str, str]]:
    """Yield what is shown of a row, each with its label."""
    match row["row"]:
        case "started":
            yield "started: memory", f"{row['memory']} MiB"
        case "first sync":
            yield "first sync: time, CPU, requests", f"{_seconds(row['seconds'])}, {row['cpu']:.1f} s, {row['api']:,}"
        case "settle":
            yield "after it: memory (peak)", f"{row['memory']} MiB ({row['peak']})"
        case "one file, webhook":
            label = "one file, push event: live p50 (max), CPU, requests to the API, to Git"
            costs = [statistics.median(row[name]) for name in ("cpu", "api", "git")]
            yield label, f"{_seconds(row['seconds'])}, {costs[0]:.2f} s, {costs[1]:,.0f}, {costs[2]:.0f}"
        case "repair":
            yield "edited object repaired: p50 (max)", _seconds(row["seconds"])
        case "commit that touches none":
            yield "commit that touches none: CPU, requests to the API, to Git", _cost(row)
        case "idle":
            yield f"idle for {row['wall']:.0f} s: CPU, requests to the API, to Git", _cost(row)
        case "one file beside hanging hosts":
            yield (
                "beside 20 hanging Git hosts, one file: live p50 (max); memory",
                (f"{_seconds(row['seconds'])}; {row['memory']} MiB"),
            )
        case "restart":
            yield "restart, commit made meanwhile: live, CPU", f"{_seconds(row['live'])}, {row['cpu']:.1f} s"


def _cost(row: Row) -> str:
    return f"{row['cpu']:.2f} s, {row['api']:,}, {row['git']}"


def _seconds(value: float | list[float | None] | None) -> str:
    """Return a time, or the median and maximum of several; None is one that did not come to its end."""
    if not isinstance(value, list):
        return "not in time" if value is None else f"{value:.2f} s"
    ended = [item for item in value if item is not None]
    if len(ended) < len(value) or not ended:
        return "not in time"
    return f"{statistics.median(ended):.2f} ({max(ended):.2f}) s"


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or COUNTS)
