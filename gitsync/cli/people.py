"""The commands for the people who may sign in to the dashboard."""

from __future__ import annotations

from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import UsersFile
from gitsync.cli.output import Exit

app = typer.Typer(rich_markup_mode=None)
users = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Say who may sign in to the dashboard.")
app.add_typer(users, name="users")

UserName = Annotated[str, typer.Argument(help="The person.")]


@users.command("add")
@exit_on_error
def add(
    name: UserName,
    group: Annotated[list[str] | None, typer.Option(help="A group of the person; may be given again.")] = None,
    file: UsersFile = None,
) -> Exit:
    """Let somebody sign in, and print their token once; for somebody who is there already, a new one."""
    from gitsync.cli.commands.users import add_user

    return add_user(name, group or [], file)


@users.command("remove")
@exit_on_error
def remove(name: UserName, file: UsersFile = None) -> Exit:
    """Let somebody sign in no more; a running dashboard knows at once."""
    from gitsync.cli.commands.users import remove_user

    return remove_user(name, file)
