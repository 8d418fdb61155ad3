"""
The history of drift: what others changed, when it was detected, and how it ended, as links of the audit chain.

What Pods ran otherwise than declared is part of it.

A link is written when drift ends, so that it has both times; drift that lasts is in the status and on the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gitsync.objects.change import DRIFT, Action, Change
from gitsync.objects.record import AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import to_record
from gitsync.plan.running import RunningFinding, RunningKind

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
class OpenFinding:
    """A Pod of a workload that runs otherwise than declared, when that was detected, and what will have ended it."""

    workload: ObjectRef
    finding: RunningFinding
    detected: datetime
    by: EndedBy = EndedBy.OTHERS


@dataclass(frozen=True, slots=True)
class PastField:
    """
    One field that others changed, or what a Pod ran otherwise, and how that ended; secret values are masked.

    ``path`` is empty where the whole object was deleted. ``edited`` is when it was changed, None where the API server
    does not know it. ``seconds`` is the time from the edit, else from its detection, to the end. Where ``pod`` names a
    Pod of the object, ``path`` is the kind of the finding, and ``changed_to`` its message.
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
    pod: str = ""

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
    details: dict[str, Any] = {"differences": differences}
    if step.action is Action.CREATE:
        details["deleted"] = True
    link = _ended(application, step.ref, drift.detected, now, by, details)
    return replace(link, reasoning=step.reason, risk_level=step.risk.value)


def ended_finding_link(application: str, ended: OpenFinding, now: datetime) -> AuditRecord:
    """Return the link for a Pod that no longer runs otherwise than declared, or that is gone."""
    finding = ended.finding
    # a Pod starts long before a newer one shows that its tag was moved
    since = "" if finding.kind is RunningKind.IMAGE else finding.since
    details = {"pod": finding.pod.name, "kind": finding.kind.value, "message": finding.message, "since": since}
    return _ended(application, ended.workload, ended.detected, now, ended.by, details)


def _ended(
    application: str, ref: ObjectRef, detected: datetime, now: datetime, by: EndedBy, details: Mapping[str, Any]
) -> AuditRecord:
    return AuditRecord(
        application=application,
        action=DRIFT_ACTION,
        resource=ref.path,
        outcome=Outcome.SUCCEEDED,
        timestamp=now,
        sync=_NO_SYNC,
        duration_ms=round((now - detected).total_seconds() * 1000),
        details={"detected": detected.isoformat(), "by": by.value, **details},
    )


def past_fields(links: Iterable[AuditRecord]) -> Iterator[PastField]:
    """Yield the fields of links with the action ``DRIFT_ACTION``, in their order."""
    for link in links:
        details = link.details
        if details.get("pod"):
            yield _past_finding(link)
            continue
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


def _past_finding(link: AuditRecord) -> PastField:
    details = link.details
    since = str(details.get("since") or "")
    return PastField(
        link.application,
        ObjectRef.from_path(link.resource),
        str(details["kind"]),
        None,
        str(details["message"]),
        "",
        datetime.fromisoformat(since) if since else None,
        datetime.fromisoformat(str(details["detected"])),
        link.timestamp,
        EndedBy(details["by"]),
        str(details["pod"]),
    )
