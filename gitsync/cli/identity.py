"""The user of the command line: the name in approvals and reverts, and the audit of what that user requests."""

from __future__ import annotations

import getpass
import sys
from dataclasses import replace

from gitsync.cli.options import Target
from gitsync.cli.records import open_records
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


def audit_request(target: Target, action: str, by: str, reason: str, *, commit: str = "") -> None:
    """
    Record a request before it is made.

    Without the controller's database, the request is made all the same: a message on standard error says that the
    audit has no record of it.
    """
    text = reason or f"gitsync {action}"
    try:
        with open_records(target.data) as records:
            record = AuditRecord.by_user(target.key, action, User(by), SystemClock().now(), text)
            records.audit([replace(record, commit=commit)])
    except InvalidInput as error:
        if error.location != "--data":
            raise
        print(f"{action} of {target.key} is not in the audit: {error.message}", file=sys.stderr)
