"""Tracks: the workloads of an Agent, each of one revision."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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
