"""The user of the command line: the name in approvals and reverts."""

from __future__ import annotations

import getpass

from gitsync.errors import InvalidInput


def user_name(given: str = "", option: str = "--author") -> str:
    """Return the given name, else the name of the operating system's user; raise InvalidInput when there is none."""
    if given.strip():
        return given.strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        raise InvalidInput(
            "cannot determine the current user", location=option, hint=f"give a name with {option}"
        ) from error
