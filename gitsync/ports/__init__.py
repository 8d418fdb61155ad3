"""Ports: what the engine needs from outside, in its own words; adapters implement them, and so may tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gitsync.ports.advisors import (
    Advice,
    AdviceCache,
    MetricResult,
    MetricSeries,
    MetricsHistory,
    MetricsProvider,
    Reasoner,
    Sample,
)
from gitsync.ports.cluster import (
    ApiResource,
    Capabilities,
    Cluster,
    EventWriter,
    KubernetesEvent,
    LiveCache,
    LogRequest,
    ObjectDetails,
    Scope,
)
from gitsync.ports.records import Records, Reviews, SessionStore, ViewStore
from gitsync.ports.source import (
    CREDENTIALS_SECRET,
    Credentials,
    EditSource,
    FileEdit,
    FileVersion,
    KeyServices,
    MergeResult,
    ProposalSource,
    RemoteBase,
    Renderer,
    RenderStore,
    RevertResult,
    Snapshot,
    Source,
    SourcePart,
    SourceRevision,
    Tag,
)
from gitsync.ports.state import (
    BOUNDS,
    ApplicationSets,
    ApplicationView,
    Cost,
    DiskSpace,
    Distribution,
    DriftTotals,
    EndedReconcile,
    Exemplar,
    OtherProcesses,
    ProcessReport,
    ReconcileSink,
    ResourceView,
    Sizes,
    Spent,
    StateEvent,
    StateReader,
    SyncRequests,
    no_others,
)


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


__all__ = [
    "BOUNDS",
    "CREDENTIALS_SECRET",
    "Advice",
    "AdviceCache",
    "ApiResource",
    "ApplicationSets",
    "ApplicationView",
    "Capabilities",
    "Clock",
    "Cluster",
    "Cost",
    "Credentials",
    "DiskSpace",
    "Distribution",
    "DriftTotals",
    "EditSource",
    "EndedReconcile",
    "EventWriter",
    "Exemplar",
    "FileEdit",
    "FileVersion",
    "KeyServices",
    "KubernetesEvent",
    "LiveCache",
    "LogRequest",
    "MergeResult",
    "MetricResult",
    "MetricSeries",
    "MetricsHistory",
    "MetricsProvider",
    "ObjectDetails",
    "OtherProcesses",
    "Ports",
    "ProcessReport",
    "ProposalSource",
    "Reasoner",
    "ReconcileSink",
    "Records",
    "RemoteBase",
    "RenderStore",
    "Renderer",
    "ResourceView",
    "RevertResult",
    "Reviews",
    "Sample",
    "Scope",
    "SessionStore",
    "Sizes",
    "Snapshot",
    "Source",
    "SourcePart",
    "SourceRevision",
    "Spent",
    "StateEvent",
    "StateReader",
    "SyncRequests",
    "Tag",
    "ViewStore",
    "no_others",
]
