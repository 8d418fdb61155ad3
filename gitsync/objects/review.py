"""A review as a link of the audit chain: the link is the review, and the database has no other copy of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gitsync.objects.change import Plan, Review
from gitsync.objects.record import AuditRecord
from gitsync.objects.user import User

APPROVE: Final = "approve"
REJECT: Final = "reject"


def review_link(application: str, plan: Plan, review: Review, now: datetime, message: str = "") -> AuditRecord:
    """Return the link that records the review of a plan of an Application (``namespace/name``)."""
    action = APPROVE if review.approves else REJECT
    link = AuditRecord.by_user(application, action, review.by, now, review.reason).of_plan(plan)
    until = review.until.astimezone(UTC).isoformat() if review.until else ""
    steps = {"steps": list(review.steps)} if review.steps else {}
    return replace(link, message=message, details={**link.details, "until": until, **steps})


def review_of(link: AuditRecord) -> Review:
    """Return the review that a link records."""
    until = str(link.details.get("until", ""))
    by = User(link.approver, tuple(link.details.get("groups", ())), bool(link.details.get("signedIn")))
    steps = tuple(map(str, link.details.get("steps", ())))
    expiry = datetime.fromisoformat(until) if until else None
    return Review(by, link.action == APPROVE, link.reasoning, expiry, steps=steps)
