"""Reviews as they are stored, for tests that need one without a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gitsync.objects.change import Review
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.user import User
from gitsync.ports import Records


def approval(by: str | User = "ada", reason: str = "", until: datetime | None = None) -> Review:
    """Return an approval, by default for an hour from now."""
    person = by if isinstance(by, User) else User(by)
    return Review(person, True, reason, until or datetime.now(UTC) + timedelta(hours=1))


def rejection(by: str = "bob", reason: str = "") -> Review:
    """Return a rejection."""
    return Review(User(by), False, reason)


def keep(records: Records, application: str, digest: str, review: Review) -> None:
    """Store a review with a link of the audit."""
    action = "approve" if review.approves else "reject"
    link = AuditRecord(
        application, action, "", Outcome.SUCCEEDED, datetime.now(UTC), "", approver=review.by.name, digest=digest
    )
    records.keep_review(application, digest, review, link)
