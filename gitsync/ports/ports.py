"""The ports that most stages of the engine use together, and the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gitsync.ports.cluster import Cluster, LiveCache
from gitsync.ports.records import Records


class Clock(Protocol):
    """
    The current time; waiting is done by queues and events, never by sleeping on a clock.

    Called by controllers, gate, records and clients whenever a decision depends on time.
    """

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...

    # intervals are measured by it: the time of day may be set back
    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """The cluster with its cached live objects, the records, and the time."""

    cluster: Cluster
    live: LiveCache
    records: Records
    clock: Clock
