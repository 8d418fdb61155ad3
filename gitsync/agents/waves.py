"""
Waves: how a change that many Agents get without a change of their own reaches a few of them at a time.

There are two: the data of Secrets and ConfigMaps that several Agents read, and a newer expansion that a user requests.
Each Agent decides for itself from the statuses of all of them. Those that wait are sorted by name and each counts those
before it, so that two replicas that decide at the same moment never admit more Agents than the limit together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from gitsync.agents.keys import STOPPED
from gitsync.agents.rollout.state import RolloutState
from gitsync.errors import InvalidInput
from gitsync.objects.conditions import READY, find_condition
from gitsync.objects.manifest import Manifest, annotations_of, at, metadata_of
from gitsync.objects.ref import ref_of


class WaveChange(Enum):
    """What a wave brings; the value is the member of ``status.wave`` that remembers it."""

    REFERENCES = "references"
    EXPANSION = "expansion"


class WavePart(Enum):
    """Where an Agent is in a wave."""

    NONE = "None"
    WAITING = "Waiting"
    UPDATING = "Updating"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class WaveLimit:
    """How many Agents of a wave update at one time: a number, or a percentage of those that have the change to get."""

    number: int
    is_percentage: bool = False

    @classmethod
    def parse(cls, text: str) -> WaveLimit:
        """Return the limit of a text such as ``3`` or ``10%``; raise InvalidInput for another text."""
        digits = text.removesuffix("%")
        # ASCII only: int() reads the digits of all scripts.
        if not (digits.isascii() and digits.isdecimal() and int(digits) > 0):
            raise InvalidInput(f"{text!r} is neither a number of Agents, such as 3, nor a percentage, such as 10%")
        return cls(int(digits), text.endswith("%"))

    def agents(self, total: int) -> int:
        """Return the number of Agents for a wave of this size, at least 1."""
        return max(1, total * self.number // 100) if self.is_percentage else self.number

    def __str__(self) -> str:
        return f"{self.number}%" if self.is_percentage else str(self.number)


DEFAULT_LIMIT: Final = WaveLimit(10, is_percentage=True)

_TURN_SECONDS = 2.0
"""Seconds between two decisions of the Agents that are next; those behind them decide less often."""
_STOPPED_SECONDS = 60.0
"""Seconds between two decisions in a wave that has stopped: it continues only after a user did something."""


@dataclass(frozen=True, slots=True)
class WaveTurn:
    """Whether an Agent may take a change now, and else why it waits and when it decides again."""

    is_admitted: bool = True
    reason: str = ""
    message: str = ""
    requeue_after: float | None = None


def part_in_wave(agent: Manifest, change: WaveChange, *, is_outdated: bool) -> WavePart:
    """
    Return where an Agent is in the wave of a change; ``is_outdated``: it has not got the change yet.

    An Agent without Pods that serve, or whose own rollout is in progress, takes no part: it has nothing to lose, or
    replaces its Pods anyway, and gets the change at once.
    """
    if STOPPED in annotations_of(agent) or at(agent, "spec", "suspend") is True:
        return WavePart.NONE
    if is_settled(agent):
        return WavePart.WAITING if is_outdated else WavePart.NONE
    if change.value not in (at(agent, "status", "wave") or {}):
        return WavePart.NONE
    has_failed = find_condition(agent.get("status") or {}, "Stalled").get("status") == "True"
    # An outdated one that failed gets another change, such as a repaired Secret, and tries that.
    return WavePart.FAILED if has_failed and not is_outdated else WavePart.UPDATING


def is_settled(agent: Manifest) -> bool:
    """Whether an Agent serves, and nothing of a rollout is in progress or has failed."""
    status: dict[str, Any] = agent.get("status") or {}
    if status.get("observedGeneration") != metadata_of(agent).get("generation"):
        return False
    if RolloutState.from_status(status).failed == status.get("updateRevision"):
        return False
    wanted = {READY: "True", "Reconciling": "False", "Stalled": "False"}
    return all(find_condition(status, type).get("status") == value for type, value in wanted.items())


def wave_turn(agent: Manifest, parts: Iterable[tuple[Manifest, WavePart]], limit: WaveLimit) -> WaveTurn:
    """
    Return whether an Agent that waits may take the change now.

    ``parts`` are all Agents that have the change to get or have it already, with where they are; the Agent itself may
    be among them.
    """
    own = ref_of(agent)
    others = [(ref_of(other), part) for other, part in parts if ref_of(other) != own]
    failed = sorted(str(ref) for ref, part in others if part is WavePart.FAILED)
    if failed:
        message = f"the same change failed at {', '.join(failed[:3])}; it continues once that is repaired"
        return WaveTurn(is_admitted=False, reason="WaveStopped", message=message, requeue_after=_STOPPED_SECONDS)
    busy = sum(part is WavePart.UPDATING for _, part in others)
    # By name and not by time: all replicas have to agree on the order.
    ahead = sum(part is WavePart.WAITING and ref < own for ref, part in others)
    allowed = limit.agents(len(others) + 1)
    if busy + ahead < allowed:
        return WaveTurn()
    return WaveTurn(
        is_admitted=False,
        reason="WaitsForWave",
        message=f"{allowed} of {len(others) + 1} Agents take the change at a time; {busy + ahead} come before this one",
        requeue_after=_TURN_SECONDS * (1 + ahead // allowed),
    )
