"""
The history of drift: what others changed, when it was detected, and how it ended, as links of the audit chain.

A link is written when drift ends, so that it has both times; drift that lasts is in the status and on the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import to_record

DRIFT_ACTION: Final = "drift"
"""The action of the links."""
_NO_SYNC: Final = "drift"
"""The links belong to no sync; those without any are decisions of users, see ``Records.decisions``."""


class EndedBy(StrEnum):
    """How drift ended."""

    SELF_HEAL = "self-heal"
    SYNC = "sync"
    """A sync wrote the object: of a commit, or requested by a user."""
    OTHERS = "others"
    """The field has the declared value again, or Git declares the other one, without a write of ours."""


@dataclass(frozen=True, slots=True)
class OpenDrift:
    """An object that others changed: the step that would restore it, and when it was detected."""

    step: Change
    detected: datetime


@dataclass(frozen=True, slots=True)
class PastField:
    """
    One field that others changed, and how that ended; secret values are masked.

    ``path`` is empty where the whole object was deleted. ``edited`` is when it was changed, None where the API server
    does not know it. ``seconds`` is the time from the edit, else from its detection, to the end.
    """

    application: str
    ref: ObjectRef
    path: str
    declared: Any
    changed_to: Any
    manager: str
    edited: datetime | None
    detected: datetime
    ended: datetime
    by: EndedBy

    @property
    def seconds(self) -> float:
        """How long the field had another value."""
        # the clock of the API server may be ahead of ours
        return max((self.ended - (self.edited or self.detected)).total_seconds(), 0.0)


def ended_link(application: str, drift: OpenDrift, now: datetime, by: EndedBy) -> AuditRecord:
    """Return the link for drift that has ended."""
    step = drift.step
    differences = [
        record for record, difference in zip(to_record(step), step.differences, strict=True) if difference.kind in DRIFT
    ]
    details: dict[str, Any] = {"detected": drift.detected.isoformat(), "by": by.value, "differences": differences}
    if step.action is Action.CREATE:
        details["deleted"] = True
    return AuditRecord(
        application=application,
        action=DRIFT_ACTION,
        resource=step.ref.path,
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync=_NO_SYNC,
        reasoning=step.reason,
        risk_level=step.risk.value,
        duration_ms=round((now - drift.detected).total_seconds() * 1000),
        details=details,
    )


def past_fields(links: Iterable[AuditRecord]) -> Iterator[PastField]:
    """Yield the fields of links with the action ``DRIFT_ACTION``, in their order."""
    for link in links:
        details = link.details
        differences = details.get("differences") or []
        # a deleted object has no field left, and nothing says who deleted it
        for item in differences if not details.get("deleted") else [{}]:
            owner: dict[str, Any] = next(iter(item.get("owners") or ()), {})
            edited = str(owner.get("time") or "")
            yield PastField(
                link.application,
                ObjectRef.from_path(link.resource),
                str(item.get("path", "")),
                item.get("desired"),
                item.get("live"),
                str(owner.get("manager") or ""),
                datetime.fromisoformat(edited) if edited else None,
                datetime.fromisoformat(str(details["detected"])),
                link.timestamp,
                EndedBy(details["by"]),
            )
