"""
A series of probes beside rollouts: when the next one is due, which id it has, and what its report means.

There are two: comparisons of the contract with its lock, and cases that are asked of the revision that serves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from croniter import croniter

from gitsync.kube.times import timestamp
from gitsync.objects.manifest import content_hash

_FIRST_DELAY: Final = 60.0
"""Seconds until a probe without a result is repeated; each further one waits twice as long."""
_LONGEST_DELAY: Final = 3600.0


class ProbeResult(Enum):
    """How a probe ended; the value is what the status says."""

    UNCHANGED = "Unchanged"
    DRIFTED = "Drifted"
    INCONCLUSIVE = "Inconclusive"


@dataclass(frozen=True, slots=True)
class ProbeSeries:
    """
    The probes of one kind of an Agent: what they ask about, and the status of the last one that ended.

    ``subject`` is what a result is about, such as a revision and a lock: another subject has no result yet.
    """

    subject: tuple[str, ...]
    last: Mapping[str, Any]
    schedule: str | None
    now: datetime

    @property
    def key(self) -> str:
        """The hash of the subject."""
        return content_hash(list(self.subject))[:10]

    @property
    def is_known(self) -> bool:
        """Whether a probe of this subject has ended."""
        return self.last.get("subject") == self.key

    @property
    def slot(self) -> str:
        """The newest time of the schedule, empty without one."""
        last = croniter(self.schedule, self.now).get_prev(datetime) if self.schedule else None
        return timestamp(last.timestamp()) if last else ""

    @property
    def attempt(self) -> int:
        """How many probes of this subject and time ended without a result."""
        is_same = self.is_known and self.last.get("slot", "") == self.slot
        return int(self.last.get("attempt", 0)) if is_same else 0

    @property
    def id(self) -> str:
        """The id of the next probe."""
        return content_hash([self.key, self.slot, self.attempt])[:10]

    @property
    def is_due(self) -> bool:
        """Whether the next probe is to begin, or has begun and not ended."""
        if not self.is_known or self.last.get("slot", "") != self.slot:
            return True
        return self.attempt > 0 and self._delay <= 0

    @property
    def requeue_after(self) -> float | None:
        """The seconds until the next probe is due, None where only another subject makes one."""
        delays = [self._delay] if self.attempt else []
        if self.schedule:
            delays.append((croniter(self.schedule, self.now).get_next(datetime) - self.now).total_seconds())
        # At least a second: a reconcile at the very time of the schedule would be repeated at once.
        return max(min(delays), 1.0) if delays else None

    def ended(self, result: ProbeResult, report: Mapping[str, Any], is_complete: bool) -> dict[str, Any]:
        """
        Return the status after the newest probe; one without all of its results is repeated.

        A difference that was known stays when the next probe cannot tell: an outage must not end what a drift holds.
        """
        was_drifted = self.is_known and self.last.get("result") == ProbeResult.DRIFTED.value
        is_kept = result is ProbeResult.INCONCLUSIVE and was_drifted
        members = dict(self.last) if is_kept else {"result": result.value, **report}
        members |= {name: report[name] for name in ("unreachable", "message") if name in report}
        status = {
            **members,
            "subject": self.key,
            "slot": self.slot,
            "attempt": 0 if is_complete else self.attempt + 1,
            "finishedAt": timestamp(self.now.timestamp()),
        }
        return {name: value for name, value in status.items() if value not in ("", 0, [], {})}

    @property
    def _delay(self) -> float:
        """The seconds until a probe without a result is repeated."""
        seconds = min(_FIRST_DELAY * 2.0 ** (self.attempt - 1), _LONGEST_DELAY)
        ended = datetime.fromisoformat(str(self.last["finishedAt"]))
        return seconds - (self.now - ended).total_seconds()


def contract_result(report: Mapping[str, Any]) -> tuple[ProbeResult, bool]:
    """Return what a report of a comparison means, and whether all dependencies answered."""
    unreachable: Sequence[str] = report.get("unreachable") or ()
    if report.get("differences"):
        return ProbeResult.DRIFTED, not unreachable
    # Without a count the Job ended before it compared.
    if unreachable or "count" not in report:
        return ProbeResult.INCONCLUSIVE, False
    return ProbeResult.UNCHANGED, True


def behaviour_result(verdict: Mapping[str, Any]) -> tuple[ProbeResult, bool]:
    """Return what a verdict on the revision that serves means, and whether it is one."""
    result = verdict.get("result")
    if result == "Failed":
        return ProbeResult.DRIFTED, True
    return (ProbeResult.UNCHANGED, True) if result == "Passed" else (ProbeResult.INCONCLUSIVE, False)
