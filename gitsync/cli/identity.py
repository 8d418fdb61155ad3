"""The person who types: the name that approvals and reverts are signed with."""

from __future__ import annotations

import getpass

from gitsync.errors import InvalidInput


def person(given: str = "", option: str = "--author") -> str:
    """Return the name given, else the one signed in with; raise InvalidInput when there is none."""
    if given.strip():
        return given.strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InvalidInput("nobody knows who you are", location=option, hint=f"say it with {option}") from error
