"""The ``gitsync`` command. A command's module is imported when the command runs, so that help starts fast."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from gitsync import __version__
from gitsync.cli.commands import GROUPS, SUMMARIES

_MODULE_OF = {
    "reject": "approve",
    "resume": "suspend",
    "unpin": "pin",
    "hold": "suspend",
    "unhold": "suspend",
    "restore": "backup",
    "bootstrap": "install",
    "verify-install": "upgrade",
    "tenant": "policy",
    "rollback": "pin",
    "diff": "plan",
    "events": "logs",
    "objects": "lists",
    "agents": "lists",
    "changes": "lists",
    "prs": "lists",
}
"""Commands in a module of another name: that of their opposite, or of what they have in common."""
_COMPLETE = "_GITSYNC_COMPLETE"


class LazyGroup(TyperGroup):
    """The group of all commands: it holds their summaries and imports the one that is run."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by what people do, instead of one alphabet of them."""
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, TyperCommand | TyperGroup, list[str]]:
        """Return the name, the command and its arguments; an unknown name is a usage error."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, load_command(str(name)), rest


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Return a command by importing its module: the function of its name there, or the group that it is."""
    # What modules define stays until the end: searching it for garbage takes a tenth of their import.
    path = f"gitsync.cli.commands.{_MODULE_OF.get(name, name)}"
    is_new = path not in sys.modules
    gc.disable()
    try:
        module = import_module(path)
    finally:
        if is_new:
            # or the first two collections examine them, 0.15 s for all that a controller imports
            gc.freeze()
        gc.enable()
    target = getattr(module, name.replace("-", "_"))
    if not isinstance(target, typer.Typer):
        # a Typer with one command becomes that command, without a level of its own
        single = typer.Typer(rich_markup_mode=None, add_completion=False)
        single.command(name)(target)
        target = single
    command = typer.main.get_command(target)
    assert isinstance(command, TyperCommand | TyperGroup)
    return command


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gitsync {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = (
        False
    ),
) -> None:
    """Keep a cluster in the state that Git declares: render, diff, apply, prune, explain."""


def _build() -> typer.Typer:
    """Return the command line with a stand-in, which has the summary, for each command."""
    group = typer.Typer(
        name="gitsync",
        cls=LazyGroup,
        no_args_is_help=True,
        add_completion=False,  # `gitsync completion` prints the script, for any shell and without writing to a profile
        pretty_exceptions_enable=False,  # errors are one line, see exit_on_error; Rich would load for a box around them
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.callback()(_root)
    for name, summary in SUMMARIES.items():
        # a stand-in: the function that runs is in a module that is imported when it does
        group.command(name, help=summary)(lambda: None)
    return group


app = _build()


def main() -> None:
    """Run the command line; usage errors exit with code 2."""
    if _COMPLETE in os.environ:  # a shell asks for completions
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    app(prog_name="gitsync", args=sys.argv[1:])
