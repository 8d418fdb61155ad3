"""``gitsync completion``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gitsync.cli.options import command
from gitsync.cli.output import Exit


class Shell(StrEnum):
    """The shells with completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@command
def completion(shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> Exit:
    """Print the completion script of a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    print(get_completion_script(prog_name="gitsync", complete_var="_GITSYNC_COMPLETE", shell=shell.value))
    return Exit.OK
