"""What waits for a person."""

from __future__ import annotations

from collections.abc import Iterable

from gitsync.errors import RecordUnavailable
from gitsync.objects.change import Decision
from gitsync.ports import ApplicationView, Records


def is_held(view: ApplicationView) -> bool:
    """Tell whether the plan waits for a person or a window."""
    return view.verdict is not None and view.verdict.decision is Decision.HELD and view.plan is not None


def waiting(views: Iterable[ApplicationView]) -> list[ApplicationView]:
    """Return the applications whose plan waits."""
    return [view for view in views if is_held(view)]


def undecided(views: Iterable[ApplicationView], records: Records) -> list[ApplicationView]:
    """Return the applications whose plan waits and was not turned down, as far as the records can be read."""
    try:
        return [view for view in waiting(views) if view.plan and not records.rejection(view.key, view.plan.digest)]
    except RecordUnavailable:
        return waiting(views)
