"""
What a rollout remembers from one reconcile to the next, in the status of the Agent.

A track is the workload of one revision; an Agent has one or two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from gitsync.objects.manifest import at


class Track(Enum):
    """The workloads that an Agent may have; the value is the label of their Pods."""

    STABLE = "stable"
    CANARY = "canary"
    BLUE = "blue"
    GREEN = "green"
    PREVIEW = "preview"

    @property
    def other(self) -> Track:
        """The other colour."""
        return Track.GREEN if self is Track.BLUE else Track.BLUE

    def workload(self, agent: str) -> str:
        """Return the name of the workload."""
        # The stable workload has the Agent's own name, which metrics, autoscalers and people search by.
        return agent if self is Track.STABLE else f"{agent}-{self.value}"


@dataclass(frozen=True, slots=True)
class Placement:
    """
    One workload: the revision of its Pods and their number.

    ``replicas`` is None where an autoscaler decides. ``partition`` is that of a StatefulSet: Pods below it keep the
    revision before. ``serves``: the Service selects its Pods.
    """

    track: Track
    revision: str
    replicas: int | None = None
    partition: int = 0
    serves: bool = True


class RolloutStage(Enum):
    """The stages of a rollout; the value is what the status says."""

    NONE = ""
    PREVIEW = "Preview"
    UPDATE = "Update"
    PROMOTE = "Promote"
    KEEP_OLD = "KeepOld"


@dataclass(frozen=True, slots=True)
class RolloutState:
    """
    The state of a rollout.

    ``current`` gets the requests, from the workload ``home``; ``goal`` is the revision that replaces it while
    ``stage`` is set; ``step`` is its step since ``step_at``, ready since ``ready_at``; ``failed`` is not tried again;
    ``old`` is kept beside after a switch. ``past`` are revisions that may still have Pods, at the latest until
    ``past_until``.
    """

    current: str = ""
    last_good: str = ""
    failed: str = ""
    home: Track = Track.STABLE
    goal: str = ""
    stage: RolloutStage = RolloutStage.NONE
    step: int = 0
    started_at: datetime | None = None
    step_at: datetime | None = None
    ready_at: datetime | None = None
    old: str = ""
    message: str = ""
    attempt: int = 0
    """How often the checks of ``goal`` were begun again, as they were inconclusive."""
    past: tuple[str, ...] = ()
    past_until: datetime | None = None
    retried: str = ""
    """The request of a user to try a failed revision again that has taken effect."""

    @property
    def in_use(self) -> frozenset[str]:
        """The revisions whose Pods run or may be started again."""
        return frozenset({self.current, self.goal, self.last_good, self.old, *self.past}) - {""}

    def begun(self, goal: str, stage: RolloutStage, now: datetime) -> RolloutState:
        """Return the state at the begin of a rollout."""
        return replace(self.ended(), goal=goal, stage=stage, started_at=now, step_at=now, message="")

    def next_stage(self, stage: RolloutStage, now: datetime) -> RolloutState:
        """Return the state at the begin of a stage."""
        return replace(self, stage=stage, step=0, step_at=now, ready_at=None)

    def next_step(self, now: datetime) -> RolloutState:
        """Return the state at the begin of the next step."""
        return replace(self, step=self.step + 1, step_at=now, ready_at=None)

    def ended(self) -> RolloutState:
        """Return the state after a rollout."""
        # Also the attempts: they belong to the goal that has ended.
        return replace(self, goal="", stage=RolloutStage.NONE, step=0, step_at=None, ready_at=None, old="", attempt=0)

    def given_up(self, message: str) -> RolloutState:
        """Return the state after a revision failed."""
        # Without a goal the current revision itself failed: a first one, or one that replaced all Pods at once.
        return replace(self.ended(), failed=self.goal or self.current, message=message)

    def switched_back(self, message: str) -> RolloutState:
        """Return the state after the Service was switched back to the old side, whose Pods are still there."""
        # The side that is left is the failed one, and the one that is returned to was good.
        returned = replace(self, current=self.old, last_good=self.old, home=self.home.other)
        return replace(returned.ended(), failed=self.current, message=message)

    def to_status(self, steps: int, weight: int) -> dict[str, Any]:
        """Return the members of a status that keep the state."""
        times = {
            "startedAt": self.started_at,
            "stepAt": self.step_at,
            "readyAt": self.ready_at,
            "pastUntil": self.past_until,
        }
        rollout: dict[str, Any] = {
            "revision": self.goal,
            "stage": self.stage.value,
            "track": self.home.value,
            # People count steps from 1; after the last one it is still the last.
            "step": min(self.step + 1, steps) if self.stage is RolloutStage.UPDATE else 0,
            "steps": steps,
            "weight": weight,
            "old": self.old,
            "past": list(self.past),
            "attempt": self.attempt,
            "retried": self.retried,
            "message": self.message,
            **{name: time.isoformat().replace("+00:00", "Z") for name, time in times.items() if time is not None},
        }
        revisions: dict[str, Any] = {
            "currentRevision": self.current,
            "lastGoodRevision": self.last_good,
            "failedRevision": self.failed,
        }
        # An absent member and its default are one state, so a status is equal to the one before.
        kept = {name: value for name, value in rollout.items() if value not in ("", 0, [])}
        return {name: value for name, value in revisions.items() if value} | {"rollout": kept}

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> RolloutState:
        """Read what ``to_status`` wrote."""
        rollout = status.get("rollout") or {}
        return cls(
            current=str(status.get("currentRevision", "")),
            last_good=str(status.get("lastGoodRevision", "")),
            failed=str(status.get("failedRevision", "")),
            home=Track(rollout.get("track", Track.STABLE.value)),
            goal=str(rollout.get("revision", "")),
            stage=RolloutStage(rollout.get("stage", "")),
            # A preview writes no step.
            step=max(int(rollout.get("step", 1)) - 1, 0),
            started_at=_time(rollout, "startedAt"),
            step_at=_time(rollout, "stepAt"),
            ready_at=_time(rollout, "readyAt"),
            old=str(rollout.get("old", "")),
            attempt=int(rollout.get("attempt", 0)),
            past=tuple(rollout.get("past") or ()),
            past_until=_time(rollout, "pastUntil"),
            retried=str(rollout.get("retried", "")),
            message=str(rollout.get("message", "")),
        )


@dataclass(frozen=True, slots=True)
class RevisionRoles:
    """
    The revisions of an Agent by their roles, empty where none has it.

    ``serving`` gets the requests, ``candidate`` is to replace it, ``failed`` is the last one that was given up or whose
    checks failed.
    """

    serving: str = ""
    candidate: str = ""
    failed: str = ""

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> RevisionRoles:
        """Return the roles that a status of the operator tells."""
        current = str(status.get("currentRevision", ""))
        failed = str(status.get("failedRevision", ""))
        # failedRevision goes with its spec, such as by a revert; the last verdict stays
        last_failed = failed or _failed_verdict(status)
        target = str(status.get("updateRevision", ""))
        goal = str(at(status, "rollout", "revision", default=""))
        # a retry makes the failed revision the goal of a rollout again
        candidate = goal or (target if target != failed else "")
        # the first revision is the current one at once, also where its checks fail and nothing serves
        is_serving = current != failed or current == status.get("lastGoodRevision")
        return cls(
            serving=current if is_serving else "",
            candidate=candidate if candidate != current else "",
            failed=last_failed if last_failed not in (candidate, current if is_serving else "") else "",
        )


def _failed_verdict(status: Mapping[str, Any]) -> str:
    verdicts = [at(status, name, default={}) for name in ("evaluation", "validation")]
    return next((str(verdict.get("revision", "")) for verdict in verdicts if verdict.get("result") == "Failed"), "")


def _time(rollout: Mapping[str, Any], name: str) -> datetime | None:
    text = rollout.get(name)
    return datetime.fromisoformat(str(text)) if text else None
