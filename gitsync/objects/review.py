"""A review as a link of the audit chain: the link is the review, and the database has no other copy of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from gitsync.objects.change import Plan, Review
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.user import User

APPROVE: Final = "approve"
REJECT: Final = "reject"


def review_link(application: str, plan: Plan, review: Review, now: datetime, message: str = "") -> AuditRecord:
    """Return the link that records the review of a plan of an Application (``namespace/name``)."""
    return AuditRecord(
        application=application,
        action=APPROVE if review.approves else REJECT,
        resource="",
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync="",
        reasoning=review.reason,
        plan_steps=len(plan.writes),
        risk_level=plan.risk.value,
        commit=plan.revision,
        approver=review.by.name,
        digest=plan.digest,
        message=message,
        details={
            "groups": list(review.by.groups),
            "signedIn": review.by.is_authenticated,
            "until": review.until.astimezone(UTC).isoformat() if review.until else "",
        },
    )


def review_of(link: AuditRecord) -> Review:
    """Return the review that a link records."""
    until = str(link.details.get("until", ""))
    by = User(link.approver, tuple(link.details.get("groups", ())), bool(link.details.get("signedIn")))
    return Review(by, link.action == APPROVE, link.reasoning, datetime.fromisoformat(until) if until else None)
