"""``gitsync users``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from gitsync.cli.data_folder import open_records
from gitsync.cli.options import DATA, Data, Requester, UsersFile, command, command_group
from gitsync.cli.output import Exit, say
from gitsync.cli.requests import user_name
from gitsync.errors import InvalidInput
from gitsync.record.configuration_audit import USERS, ConfigurationAudit
from gitsync.runtime.clock import SystemClock
from gitsync.server.auth import users as users_file
from gitsync.server.auth.users import entries_of

users = command_group("Manage the users who may sign in to the dashboard.")

UserName = Annotated[str, typer.Argument(help="The user.")]


@users.command()
@command
def add(
    name: UserName,
    group: Annotated[list[str] | None, typer.Option(help="A group of the user; repeatable.")] = None,
    token_name: Annotated[
        str, typer.Option("--token-name", help="A name for the token, shown in the audit; a user may have several.")
    ] = "",
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until the token expires.")] = 365,
    file: UsersFile = None,
    by: Requester = "",
    data: Data = DATA,
) -> Exit:
    """Add a user, or replace the token of an existing one; the token is printed once."""
    expires = datetime.now(UTC) + timedelta(days=days)
    path = _named(file)
    token = users_file.add(path, name, group or [], token_name, expires)
    _audit(path, user_name(by, "--by"), data)
    groups = f" of {', '.join(group)}" if group else ""
    say(f"token for {name}{groups}, valid until {expires:%Y-%m-%d} (shown once):")
    print(token)
    return Exit.OK


@users.command()
@command
def remove(name: UserName, file: UsersFile = None, by: Requester = "", data: Data = DATA) -> Exit:
    """Revoke a user's access; effective immediately."""
    path = _named(file)
    if not users_file.remove(path, name):
        known = ", ".join(str(entry.get("name")) for entry in users_file.read(path))
        raise InvalidInput(f"user {name!r} not found", location=str(path), hint=f"known: {known}" if known else "")
    _audit(path, user_name(by, "--by"), data)
    say(f"{name} may not sign in any more")
    return Exit.OK


def _audit(path: Path, by: str, data: Path) -> None:
    """Record a change of the file; without the controller's database, the controller does when it reads the file."""
    try:
        with open_records(data) as records:
            ConfigurationAudit(records, SystemClock(), USERS).record(entries_of(users_file.read(path)), by)
    except InvalidInput as error:
        if error.location != "--data":
            raise


def _named(file: Path | None) -> Path:
    if file is None:
        raise InvalidInput("the file of users is not named", location="--users", hint="name it, or set GITSYNC_USERS")
    return file
