"""What reconciles cost, by Application and by stage, and what each of them did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from gitsync.runtime.work_costs import Interval

BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds of the buckets of a distribution; one more bucket has what took longer."""


class Spent(NamedTuple):
    """Seconds, and CPU seconds of the thread that spent them."""

    seconds: float = 0.0
    cpu: float = 0.0

    def plus(self, other: Spent) -> Spent:
        """Return the sum."""
        return Spent(self.seconds + other.seconds, self.cpu + other.cpu)


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What an Application cost since the controller started.

    That are full reconciles, those of changed objects only, requests to the API server, and the time of each stage.
    """

    full: int = 0
    partial: int = 0
    requests: int = 0
    stages: Mapping[str, Spent] = field(default_factory=dict)

    def plus(self, other: Cost) -> Cost:
        """Return the sum."""
        stages = {
            name: self.stages.get(name, Spent()).plus(other.stages.get(name, Spent()))
            for name in (*self.stages, *(name for name in other.stages if name not in self.stages))
        }
        return Cost(self.full + other.full, self.partial + other.partial, self.requests + other.requests, stages)

    @property
    def total(self) -> Spent:
        """The sum of all stages."""
        sums = map(sum, zip(*self.stages.values(), strict=True)) if self.stages else ()
        return Spent(*sums)


@dataclass(frozen=True, slots=True)
class Distribution:
    """How long something took: the number of times in each bucket of ``BOUNDS``, and the sum of their seconds."""

    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many live objects are cached, by resource such as ``deployments.apps``, and how many entries others have."""

    objects: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reconcile:
    """
    One reconcile that has ended: when it began, its stages in order, and what it reports.

    ``is_partial``: it was one of changed objects only, which reports nothing.
    """

    application: str
    began: datetime
    intervals: tuple[Interval, ...]
    is_partial: bool = False
    phase: str = ""
    revision: str = ""
    error: str = ""


class ReconcileSink(Protocol):
    """Take every reconcile that has ended; called by workers, so it must return at once and raise nothing."""

    def add(self, done: Reconcile) -> None:
        """Take a reconcile."""
        ...
