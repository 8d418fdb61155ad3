"""``gitsync users``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.errors import exit_on_error
from gitsync.cli.options import UsersFile
from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput
from gitsync.server.auth import users as users_file

users = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Manage the users who may sign in to the dashboard."
)

UserName = Annotated[str, typer.Argument(help="The user.")]


@users.command()
@exit_on_error
def add(
    name: UserName,
    group: Annotated[list[str] | None, typer.Option(help="A group of the user; repeatable.")] = None,
    token_name: Annotated[
        str, typer.Option("--token-name", help="A name for the token, shown in the audit; a user may have several.")
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")] = 365,
    file: UsersFile = None,
) -> Exit:
    """Add a user, or replace the token of an existing one; the token is printed once."""
    expires = datetime.now(UTC) + timedelta(days=days)
    token = users_file.add(_named(file), name, group or [], token_name, expires)
    groups = f" of {', '.join(group)}" if group else ""
    say(f"token for {name}{groups}, valid until {expires:%Y-%m-%d} (shown once):")
    print(token)
    return Exit.OK


@users.command()
@exit_on_error
def remove(name: UserName, file: UsersFile = None) -> Exit:
    """Revoke a user's access; effective immediately."""
    path = _named(file)
    if not users_file.remove(path, name):
        known = ", ".join(str(entry.get("name")) for entry in users_file.read(path))
        raise InvalidInput(f"user {name!r} not found", location=str(path), hint=f"known: {known}" if known else "")
    say(f"{name} may not sign in any more")
    return Exit.OK


def _named(file: Path | None) -> Path:
    if file is None:
        raise InvalidInput("the file of users is not named", location="--users", hint="name it, or set GITSYNC_USERS")
    return file
