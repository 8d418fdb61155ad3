"""Print a list again and again: first all rows, then those that are new or changed, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from gitsync.cli.output import Format, show

_PERIOD = 1.0
"""Seconds between two reads."""


def repeat(
    rows: Callable[[], Sequence[Mapping[str, Any]]],
    columns: Sequence[str],
    output: Format,
    *,
    key: str | Sequence[str],
) -> NoReturn:
    """Print the rows, and afterwards each new or changed row, until the process is interrupted."""
    known: list[Mapping[str, Any]] = []
    is_first = True
    while True:
        found = list(rows())
        fresh = [row for row in found if row not in known]
        if fresh or is_first:
            show(fresh, columns, output, key=key, header=is_first)
        known, is_first = found, False
        time.sleep(_PERIOD)
