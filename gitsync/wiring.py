"""Wiring: the only place that constructs the edges and joins them."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from gitsync.apply.execute import Applier
from gitsync.apply.hooks import Hooks
from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.fencing import FencedCluster
from gitsync.cluster.kubernetes import KubernetesCluster
from gitsync.cluster.lease import LeaseMemberStore
from gitsync.controllers.application import ApplicationController
from gitsync.controllers.crds import CrdInstaller
from gitsync.errors import InvalidInput
from gitsync.gate.cel_rules import ManifestRule, parse_rules
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import parse_policy
from gitsync.integrations.prometheus.client import Prometheus
from gitsync.integrations.reasoner.advisor import Advisor
from gitsync.ports import (
    Clock,
    Cluster,
    LiveCache,
    MetricsProvider,
    Reasoner,
    Records,
    Renderer,
    Source,
    StateReader,
    SyncRequests,
)
from gitsync.record.database import Database
from gitsync.record.records import SqlRecords
from gitsync.record.retention import Retention
from gitsync.render.yaml.reader import read_all
from gitsync.runtime.manager import Manager, Runnable
from gitsync.runtime.membership import Membership
from gitsync.runtime.shard import Shard, SingleReplica
from gitsync.services.provenance import FieldProvenance
from gitsync.services.revert import RevertService
from gitsync.settings import Settings
from gitsync.source.repositories import Repositories
from gitsync.source.validation import SAFE_SCHEMES
from gitsync.source.verify import verify_commit
from gitsync.sync.advice import AdviceGate
from gitsync.sync.analysis.post_sync import PostSyncAnalysis
from gitsync.sync.credentials import credentials_of
from gitsync.sync.decision import SyncGate
from gitsync.sync.desired import DesiredState
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.fetch import Fetcher
from gitsync.sync.pipeline import Pipeline
from gitsync.sync.planner import Planner
from gitsync.sync.reconciler import Reconciler
from gitsync.sync.state_store import StateStore
from gitsync.sync.status.writer import StatusWriter
from gitsync.workers.pool import RenderPool

_OTHER_CONNECTIONS = 48
"""Watches (one per kind in use) and single requests beside the parallel writes."""


class SystemClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Engine:
    """A controller and what others may see of it: what it knows, what it may be asked, what it remembers."""

    manager: Manager
    view: StateReader
    requests: SyncRequests
    records: SqlRecords
    source: Repositories
    cluster: KubernetesCluster
    undo: RevertService
    origins: FieldProvenance
    clock: SystemClock

    def start(self) -> None:
        """Connect to the cluster and start syncing."""
        self.manager.start()

    def stop(self) -> None:
        """Let writes under way end, and stop."""
        self.manager.stop()


@dataclass(frozen=True, slots=True)
class Adapters:
    """All that touches the world outside; ``pool`` carries out writes beside each other."""

    cluster: Cluster
    live: LiveCache
    records: Records
    source: Source
    renderer: Renderer
    clock: Clock
    pool: Executor
    reasoner: Reasoner | None = None
    metrics: MetricsProvider | None = None


def build_controller(settings: Settings, policy: Policy | None = None) -> Engine:
    """Return a controller for these settings, not started; raise a GitsyncError when it cannot be built."""
    _check_replicas(settings)
    settings.data.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    records = SqlRecords(Database(settings.database_url))
    schemes = (*SAFE_SCHEMES, "file") if settings.allow_file_urls else SAFE_SCHEMES
    source = Repositories(settings.data / "mirrors", schemes=schemes)
    renderer = RenderPool(settings.render_workers, settings.render_seconds, settings.render_memory)
    client = Client(Connection(settings.kubeconfig, settings.context, settings.writes + _OTHER_CONNECTIONS))
    members = Membership(LeaseMemberStore(client, settings.namespace), _identity(), duration=settings.lease_seconds)
    share: Shard = members if settings.replicas else SingleReplica()
    cluster, live = FencedCluster(client, share), InformerCache(client, _listed(settings.namespaces))
    pool = ThreadPoolExecutor(settings.writes, thread_name_prefix="write")
    reasoner = Advisor(settings.reasoner_hosts.split(","), clock, records)
    metrics = (
        Prometheus(settings.prometheus, clock, token=settings.prometheus_token_file) if settings.prometheus else None
    )
    policies, rules = read_policies(settings.policies)
    applications, state = build_engine(
        Adapters(cluster, live, records, source, renderer, clock, pool, reasoner, metrics),
        (policy,) if policy else policies,
        rules,
        share=share,
        workers=settings.workers,
    )
    members.on_change = applications.enqueue_all
    live.subscribe(applications.on_object_change, applications.enqueue_all)
    parts: list[Runnable] = [
        _CloseOnStop(records.close),
        *([Retention(records, clock, settings.audit_days)] if settings.audit_days else []),
        _CloseOnStop(renderer.close),
        _CloseOnStop(reasoner.close),
        *([_CloseOnStop(metrics.close)] if metrics else []),
        _CloseOnStop(client.close),
        _CloseOnStop(lambda: pool.shutdown(cancel_futures=True)),
        _CloseOnStop(live.stop),
        CrdInstaller(
            KubernetesCluster(client), install=settings.install_crds
        ),  # every replica may, before it has a Lease
        *([members] if settings.replicas else []),
        applications,
    ]
    undo = RevertService(source, cluster, live)
    origins = FieldProvenance(source, renderer, partial(credentials_of, cluster=cluster, live=live))
    return Engine(Manager(parts), state, applications, records, source, cluster, undo, origins, clock)


def build_engine(
    edges: Adapters,
    policies: Sequence[Policy] = (),
    rules: Sequence[ManifestRule] = (),
    *,
    share: Shard | None = None,
    workers: int = 4,
) -> tuple[ApplicationController, StateStore]:
    """Return the engine between these edges: its controller, not started, and what it knows."""
    cluster, live, records, clock = edges.cluster, edges.live, edges.records, edges.clock
    share = share or SingleReplica()
    statuses, state = StatusWriter(cluster, live), StateStore(cluster, live)
    applier = Applier(cluster, live, records, clock, edges.pool, lambda: share.may_write)
    executor = SyncExecutor(applier, Hooks(applier, cluster, live), records, state, live, clock)
    advice = AdviceGate(edges.reasoner, cluster, live)
    gate = SyncGate(cluster, live, records, clock, advice, policies, rules)
    planner = Planner(cluster, state, edges.pool)
    reconciler = Reconciler(cluster, live, records, planner, gate, executor, statuses, state)
    fetcher = Fetcher(edges.source, verify_commit, cluster, live, clock)
    desired = DesiredState(edges.source, edges.renderer, cluster, live, fetcher)
    analysis = PostSyncAnalysis(records, edges.metrics)
    pipeline = Pipeline(fetcher, desired, reconciler, analysis, records, statuses, state, clock)
    applications = ApplicationController(pipeline, state, cluster, live, clock, share=share, workers=workers)
    return applications, state


def read_policies(folder: Path | None) -> tuple[tuple[Policy, ...], tuple[ManifestRule, ...]]:
    """
    Read the operator's policies, and the rules that manifests must meet.

    Raise InvalidInput when the folder is not there: without policies nearly everything is allowed.
    """
    if folder is not None and not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}", location="policies")
    files = sorted(folder.glob("*.yaml")) if folder is not None else []
    documents = [(document, file.name) for file in files for document in read_all(file.read_bytes(), file.name)]
    policies = (parse_policy(document, name) for document, name in documents)
    rules = (rule for document, name in documents for rule in parse_rules(document, name))
    return tuple(policy for policy in policies if policy is not None), tuple(rules)


class _CloseOnStop:
    """Something that needs no start but an end."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Close it."""
        self._close()


def _identity() -> str:
    """Return a name that no other process has, also not the next one on this machine."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _listed(text: str) -> tuple[str, ...]:
    """Return the members of a list divided by commas."""
    return tuple(sorted({part.strip() for part in text.split(",")} - {""}))


def _check_replicas(settings: Settings) -> None:
    """Refuse replicas that could not share what they record."""
    if settings.replicas and settings.database_url.startswith("sqlite"):
        raise InvalidInput(
            "replicas share one history, and SQLite is a file of one machine",
            location="GITSYNC_DATABASE",
            hint="name a PostgreSQL such as postgresql://gitsync@db/gitsync, or unset GITSYNC_REPLICAS",
        )
