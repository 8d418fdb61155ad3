"""The ``gitsync`` command. Commands import what is heavy when they run, so that help comes at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gitsync import __version__
from gitsync.cli import asking, looking, people, rendering, running

app = typer.Typer(
    name="gitsync",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (running, rendering, looking, asking, people):
    app.add_typer(group.app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gitsync {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Keep a cluster as Git says: render, diff, apply, prune, explain."""


def main() -> None:
    """Run the command line; usage errors leave with exit code 2."""
    app(prog_name="gitsync", args=sys.argv[1:])
