"""The user of the command line: the name in approvals and reverts, and the audit of what that user requests."""

from __future__ import annotations

import getpass

from gitsync.cli.options import Target
from gitsync.cli.requests import DatabaseRecords
from gitsync.errors import InvalidInput
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock


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


def audit_request(target: Target, action: str, by: str, reason: str) -> None:
    """Record a request that only commands make before it is made."""
    record = AuditRecord.by_user(target.key, action, User(by), SystemClock().now(), reason or f"gitsync {action}")
    DatabaseRecords(target.data).audit([record])
