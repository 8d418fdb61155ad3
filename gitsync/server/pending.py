"""Plans that wait for a user or a sync window."""

from __future__ import annotations

from collections.abc import Iterable

from gitsync.errors import AuditMismatch, RecordUnavailable
from gitsync.objects.change import HoldReason, Review
from gitsync.ports import ApplicationView
from gitsync.server.backend import Backend
from gitsync.services.reviews import is_held


def needs_approval(view: ApplicationView) -> bool:
    """Tell whether the plan needs approval (possibly among other holds)."""
    return is_held(view) and view.verdict is not None and HoldReason.APPROVAL in view.verdict.holds


def waiting(views: Iterable[ApplicationView]) -> list[ApplicationView]:
    """Return the applications whose plan waits."""
    return [view for view in views if is_held(view)]


def rejection(view: ApplicationView, engine: Backend) -> Review | None:
    """Return the rejection of the plan of an application, None when it was not rejected."""
    if view.plan is None:
        return None
    try:
        review = engine.records.review(view.key, view.plan.digest, engine.clock.now())
    except AuditMismatch:
        return None  # the reconcile reports it
    return review if review is not None and not review.approves else None


def awaiting_decision(views: Iterable[ApplicationView], engine: Backend) -> list[ApplicationView]:
    """Return the applications whose plan waits for a review; without the records, all that need one."""
    asked = [view for view in views if needs_approval(view)]
    try:
        return [view for view in asked if rejection(view, engine) is None]
    except RecordUnavailable:
        return asked
