"""Audit records of what users request besides reviews: sync, suspend, resume, pin, unpin, revert."""

from __future__ import annotations

from datetime import datetime

from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.user import User


def user_action(
    application: str, action: str, by: User, reason: str, now: datetime, *, commit: str = ""
) -> AuditRecord:
    """Return the audit record of a request: the person, the reason and the time; ``commit`` is what it names."""
    return AuditRecord(
        application=application,
        action=action,
        resource="",
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync="",
        reasoning=reason,
        commit=commit,
        approver=by.name,
        details={"groups": list(by.groups), "signedIn": by.is_authenticated},
    )
