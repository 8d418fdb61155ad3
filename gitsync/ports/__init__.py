"""Ports: what the engine needs from outside, in its own words; adapters implement them, and so may tests."""

from gitsync.ports.application_sets import ApplicationSets
from gitsync.ports.clock import Clock
from gitsync.ports.cluster import Cluster, Resource, Scope
from gitsync.ports.costs import BOUNDS, Cost, Distribution, Reconcile, ReconcileSink, Sizes, Spent
from gitsync.ports.live_cache import LiveCache
from gitsync.ports.metrics import MetricResult, MetricsProvider, Sample
from gitsync.ports.object_details import EventWriter, KubernetesEvent, ObjectDetails
from gitsync.ports.ports import Ports
from gitsync.ports.processes import OtherProcesses, ProcessReport, no_others
from gitsync.ports.reasoner import Advice, AdviceCache, Reasoner
from gitsync.ports.records import Records, Reviews
from gitsync.ports.renderer import Renderer, RenderStore
from gitsync.ports.source import (
    CREDENTIALS_SECRET,
    Credentials,
    FileVersion,
    RemoteBase,
    RevertResult,
    Revision,
    Snapshot,
    Source,
    Tag,
)
from gitsync.ports.state import ApplicationView, ResourceView, StateEvent, StateReader
from gitsync.ports.sync_requests import SyncRequests

__all__ = [
    "BOUNDS",
    "CREDENTIALS_SECRET",
    "Advice",
    "AdviceCache",
    "ApplicationSets",
    "ApplicationView",
    "Clock",
    "Cluster",
    "Cost",
    "Credentials",
    "Distribution",
    "EventWriter",
    "FileVersion",
    "KubernetesEvent",
    "LiveCache",
    "MetricResult",
    "MetricsProvider",
    "ObjectDetails",
    "OtherProcesses",
    "Ports",
    "ProcessReport",
    "Reasoner",
    "Reconcile",
    "ReconcileSink",
    "Records",
    "RemoteBase",
    "RenderStore",
    "Renderer",
    "Resource",
    "ResourceView",
    "RevertResult",
    "Reviews",
    "Revision",
    "Sample",
    "Scope",
    "Sizes",
    "Snapshot",
    "Source",
    "Spent",
    "StateEvent",
    "StateReader",
    "SyncRequests",
    "Tag",
    "no_others",
]
