"""The ports that most stages of the engine use together."""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.ports.clock import Clock
from gitsync.ports.cluster import Cluster
from gitsync.ports.live_cache import LiveCache
from gitsync.ports.records import Records


@dataclass(frozen=True, slots=True)
class Ports:
    """The cluster with its cached live objects, the records, and the time."""

    cluster: Cluster
    live: LiveCache
    records: Records
    clock: Clock
