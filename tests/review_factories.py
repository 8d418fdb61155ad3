"""Reviews as they are stored, for tests that need one without a person."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gitsync.objects.change import Plan, Review, Risk, review_link
from gitsync.objects.user import User
from gitsync.ports import Records


def approval(by: str | User = "ada", reason: str = "", until: datetime | None = None) -> Review:
    """Return an approval, by default for an hour from now."""
    person = by if isinstance(by, User) else User(by)
    return Review(person, True, reason, until or datetime.now(UTC) + timedelta(hours=1))


def rejection(by: str = "bob", reason: str = "") -> Review:
    """Return a rejection."""
    return Review(User(by), False, reason)


def keep(records: Records, application: str, digest: str, review: Review, now: datetime | None = None) -> None:
    """Store a review with its link of the audit."""
    plan = Plan(application, "", (), digest, Risk.DANGEROUS)
    records.keep_review(review_link(application, plan, review, now or datetime.now(UTC)))
