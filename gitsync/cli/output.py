"""Output of commands: tables, JSON and YAML on standard output; colour only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import Any, NoReturn

from gitsync.errors import one_line

STYLES = {
    "Synced": "green",
    "Healthy": "green",
    "Succeeded": "green",
    "OutOfSync": "yellow",
    "Progressing": "blue",
    "Suspended": "dim",
    "Held": "yellow",
    "Drifted": "yellow",
    "Degraded": "red",
    "Failed": "red",
    "Missing": "yellow",
    "Dangerous": "red",
}
_STATES = frozenset({"sync", "health", "phase", "state", "outcome", "class"})
"""Columns that tables show in the words of the pages; JSON and YAML have the names of the API."""
_PERIOD = 1.0
"""Seconds between two reads."""


class Exit(IntEnum):
    """Exit codes that scripts can use."""

    OK = 0
    """Success; in sync and healthy where the command checks that."""
    DIFFERENT = 1
    """There are differences, or something is not in sync or not healthy."""
    INVALID = 2
    """The input is invalid or was refused: change it."""
    UNAVAILABLE = 3
    """A server does not answer, or a timeout passed: retry."""
    INTERNAL = 70
    """A bug in gitsync."""
    INTERRUPTED = 130
    """Ctrl-C."""


class Format(StrEnum):
    """The output formats of a list."""

    TABLE = "table"
    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class BuildFormat(StrEnum):
    """The output formats of manifests."""

    YAML = "yaml"
    JSON = "json"


def to_json(value: Any) -> str:
    """Return indented JSON."""
    import orjson

    # keys of YAML may be numbers
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS).decode()


def show_one(members: Mapping[str, Any], output: Format) -> None:
    """Print one object as JSON or YAML."""
    if output is Format.JSON:
        print(to_json(members))
    else:
        from gitsync.render.yaml.writer import write

        print(write(dict(members)), end="")


def show(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    output: Format,
    *,
    key: str | Sequence[str],
    header: bool = True,
) -> None:
    """
    Print rows in an output format.

    A table has the named columns with states in words, a wide one all members that fit into a cell, ``name`` only the
    members of ``key``, joined by ``/``, each name once. JSON and YAML have all members. In a pipe the table is plain
    text with columns separated by two spaces or more, and nothing is cut.
    """
    items = [dict(row) for row in rows]
    if output is Format.JSON:
        print(to_json(items))
    elif output is Format.YAML:
        from gitsync.render.yaml.writer import write_all

        print(write_all(items), end="")
    elif output is Format.NAME:
        members = (key,) if isinstance(key, str) else key
        for name in dict.fromkeys("/".join(_cell(item.get(member)) for member in members) for item in items):
            print(name)
    else:
        shown = (*columns, *_others(items, columns)) if output is Format.WIDE else tuple(columns)
        (_rich_table if sys.stdout.isatty() else _plain_table)(items, shown, header)


def _others(items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the members beside the columns whose values fit into a cell."""
    members = dict.fromkeys(member for item in items for member in item)
    return tuple(
        member
        for member in members
        if member not in columns and not any(isinstance(item.get(member), dict | list) for item in items)
    )


def _cell(value: Any) -> str:
    """Return a value as one line: values from Git or the cluster may contain any characters."""
    if isinstance(value, list | tuple):
        return ", ".join(_cell(item) for item in value)
    return "" if value is None else one_line(str(value))


def _in_words(item: Mapping[str, Any], column: str) -> str:
    """Return the cell of a table."""
    cell = _cell(item.get(column))
    if column not in _STATES:
        return cell
    from gitsync.server.queries.words import words  # late: a build shows no states

    return words(cell)


def _rich_table(items: Sequence[Mapping[str, Any]], columns: Sequence[str], header: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_header=header)
    for column in columns:
        table.add_column(column.upper(), overflow="fold")
    for item in items:
        cells = [(_in_words(item, column), _cell(item.get(column))) for column in columns]
        # Text, not str, in which Rich would read brackets as markup
        table.add_row(*(Text(cell, style=STYLES.get(name, "")) for cell, name in cells))
    Console().print(table)


def _plain_table(items: Sequence[Mapping[str, Any]], columns: Sequence[str], header: bool) -> None:
    lines = [[column.upper() for column in columns]]
    lines += [[_in_words(item, column) for column in columns] for item in items]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines if header else lines[1:]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def say(text: str, style: str = "", *, is_warning: bool = False) -> None:
    """
    Print lines, in a style on a terminal; control characters are escaped.

    A warning goes to standard error, so that the output in between stays JSON or YAML.
    """
    file = sys.stderr if is_warning else sys.stdout
    # a terminal obeys escape sequences, also those in a name or a message
    shown = "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)
    if style and file.isatty():
        from rich.console import Console

        Console(file=file, highlight=False, markup=False, soft_wrap=True).print(shown, style=style)
    else:
        print(shown, file=file, flush=True)  # the reader of the pipe waits for this line


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
        current = list(rows())
        # dicts are not hashable, hence a list
        fresh = [row for row in current if row not in known]
        if fresh or is_first:
            show(fresh, columns, output, key=key, header=is_first)
        known = current
        is_first = False
        time.sleep(_PERIOD)
