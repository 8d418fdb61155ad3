"""``gitsync users``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gitsync.cli.output import Exit, say
from gitsync.errors import InvalidInput
from gitsync.server.auth.users import add, read, remove


def add_user(name: str, groups: Sequence[str], file: Path | None) -> Exit:
    """Put somebody into the users file, and print the token, once."""
    path = _named(file)
    token = add(path, name, groups)
    said = f" of {', '.join(groups)}" if groups else ""
    say(f"{name}{said} may sign in with this token, which is shown only now:")
    print(token)
    return Exit.OK


def remove_user(name: str, file: Path | None) -> Exit:
    """Take somebody out of the users file; their token and sessions count no more."""
    path = _named(file)
    if not remove(path, name):
        known = ", ".join(str(entry.get("name")) for entry in read(path))
        raise InvalidInput(f"there is no {name!r}", location=str(path), hint=f"there are: {known}" if known else "")
    say(f"{name} may sign in no more")
    return Exit.OK


def _named(file: Path | None) -> Path:
    if file is None:
        raise InvalidInput("which file?", location="--users", hint="name it, or set GITSYNC_USERS")
    return file
