"""The audit record of what a user requests by a command: the person, the reason and the time."""

from __future__ import annotations

import sys

from gitsync.cli.options import Target
from gitsync.cli.records import open_records
from gitsync.errors import InvalidInput
from gitsync.objects.user import User
from gitsync.runtime.clock import SystemClock
from gitsync.services.user_actions import user_action


def audit_request(target: Target, action: str, by: str, reason: str, *, commit: str = "") -> None:
    """
    Record a request before it is made.

    Without the controller's database, the request is made all the same: a message on standard error says that the
    audit has no record of it.
    """
    text = reason or f"gitsync {action}"
    try:
        with open_records(target.data) as records:
            records.audit([user_action(target.key, action, User(by), text, SystemClock().now(), commit=commit)])
    except InvalidInput as error:
        if error.location != "--data":
            raise
        print(f"{action} of {target.key} is not in the audit: {error.message}", file=sys.stderr)
