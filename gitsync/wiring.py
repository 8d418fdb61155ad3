"""The composition root: the only module that constructs the adapters and connects them to the engine."""

from __future__ import annotations

import os
import shutil
import socket
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol

from gitsync.agents.waves import DEFAULT_LIMIT, WaveLimit
from gitsync.apply.change import DryRun
from gitsync.apply.execute import Applier
from gitsync.apply.hooks import Hooks
from gitsync.apply.owner_writes import WritePool, WritesByOwner
from gitsync.cluster.cache import InformerCache
from gitsync.cluster.client import Client, Connection
from gitsync.cluster.kubernetes import ApiObjectDetails, KubernetesCluster
from gitsync.cluster.lease import FencedCluster, LeaseMemberStore
from gitsync.cluster.watch import listed
from gitsync.controllers.agents import AgentController
from gitsync.controllers.application import ApplicationController
from gitsync.controllers.applicationsets import ApplicationSetController
from gitsync.controllers.base import Workers
from gitsync.controllers.crds import CrdInstaller
from gitsync.controllers.pull_requests import HostApprovals, PullRequestController, PullRequestPorts
from gitsync.controllers.updates import UpdateController, UpdateControllerPorts
from gitsync.errors import InvalidInput, RecordUnavailable
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import PolicySet
from gitsync.integrations.key_services import KeyServices
from gitsync.integrations.prometheus import Prometheus
from gitsync.integrations.reasoner import Advisor
from gitsync.integrations.registry import Registries
from gitsync.integrations.traces import TraceExporter
from gitsync.objects.ref import ObjectRef
from gitsync.operator.agents import AgentReconciler
from gitsync.operator.application_sets import SetReconciler, SetSources, SetWriter
from gitsync.operator.child_reconciler import ChildrenReconciler, WriteRights
from gitsync.operator.ownership import Ownership
from gitsync.operator.removal import RemovalGuard
from gitsync.operator.reporting import ReportingReconciler
from gitsync.operator.systems import SystemReconciler
from gitsync.plan.ownership import APPLIERS
from gitsync.ports import (
    Clock,
    Cluster,
    DiskSpace,
    LiveCache,
    MetricsProvider,
    Ports,
    Reasoner,
    ReconcileSink,
    Records,
    Renderer,
    RenderStore,
    Sizes,
    Source,
    StateReader,
    SyncRequests,
)
from gitsync.record.audit_chain import AuditHeads, Retention
from gitsync.record.configuration_audit import POLICY, USERS, ConfigurationAudit
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.record.shared import SqlProposals, SqlSessions, SqlViews
from gitsync.runtime.clock import SystemClock
from gitsync.runtime.controller import Manager, Runnable
from gitsync.runtime.elastic_pool import ElasticPool
from gitsync.runtime.exclusive import ExclusiveLease, identity_in
from gitsync.runtime.garbage import GarbageCollection
from gitsync.runtime.membership import GroupLeases, Membership, Shard, SingleReplica, holder_in
from gitsync.runtime.workqueue import FairShare, WorkQueue
from gitsync.server.auth.users import UserAudit
from gitsync.server.notify.channels import AppriseChannel, EventChannel
from gitsync.server.notify.notifier import NoticeChannel, Notifier
from gitsync.server.notify.rules import Receivers, read_rules
from gitsync.services.adopt import AdoptService, KeepService
from gitsync.services.policies import PolicyReloader, read_files, read_policies
from gitsync.services.provenance import FieldProvenance
from gitsync.services.requests import UserRequests
from gitsync.services.revert import RevertPreview, RevertService
from gitsync.services.updates import AppState, UpdatePorts, UpdateService
from gitsync.services.usage import POD_METRICS, PodUsage, TokenUsage
from gitsync.services.workloads import WorkloadService
from gitsync.settings import Settings
from gitsync.source.hosts.opening import ApiHosts
from gitsync.source.landlock import Concealed, Confinement
from gitsync.source.repositories import MirrorCleanup, Repositories
from gitsync.source.signatures import verify_revision
from gitsync.state.costs import Costs
from gitsync.state.declarations import Declarations
from gitsync.state.state import EngineState, LiveObjects, StateView
from gitsync.sync.changed_objects import SettledReconciler
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.decision import AdviceGate, SyncGate
from gitsync.sync.deletion import DeletionReconciler, Installation
from gitsync.sync.desired import Decryptor, DesiredState
from gitsync.sync.drift_log import DriftLog
from gitsync.sync.evaluate import ClusterView, SyncEvaluator
from gitsync.sync.evaluations import ObjectEvaluator
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.pipeline import Pipeline, ReconcileStages
from gitsync.sync.planner import Planner, PlanRules
from gitsync.sync.policies import Policies
from gitsync.sync.polling.fetch import Fetcher, SignatureCheck
from gitsync.sync.polling.git_watcher import GitWatcher
from gitsync.sync.post_sync import PostSyncAnalysis
from gitsync.sync.reconciler import ClusterWriters, Planning, Reconciler
from gitsync.sync.relay import Relay, is_current
from gitsync.sync.remote_bases import RemoteBases
from gitsync.sync.repair import Repairer
from gitsync.sync.replacements import Replacer
from gitsync.sync.running import running_digests
from gitsync.sync.status.writer import StatusWriter
from gitsync.workers.kept_builds import KeptBuilds
from gitsync.workers.pool import RenderPool

_OTHER_CONNECTIONS = 48
"""Connections for watches (one per kind in use) and single requests, besides the parallel writes."""

_SET_WORKERS = 2
"""ApplicationSets that are reconciled at a time: each is a comparison in memory, and writes that wait for no worker."""


class _RequiredPart(Protocol):
    """A part of the controller without which nothing is synced."""

    @property
    def problem(self) -> str:
        """Why it does not work now, empty where it does."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """A controller with what the dashboard uses of it: its state, its requests, its records and its source."""

    manager: Manager
    view: StateReader
    requests: SyncRequests
    sets: ApplicationSetController
    records: SqlRecords
    sessions: SqlSessions
    views: SqlViews
    source: Repositories
    cluster: KubernetesCluster
    reverts: RevertService
    provenance: FieldProvenance
    preview: RevertPreview
    details: ApiObjectDetails
    policies: Policies
    usage: TokenUsage
    pod_usage: PodUsage
    receivers: Receivers
    clock: SystemClock
    parts: tuple[_RequiredPart, ...]
    pull_requests: PullRequestController
    keeps: KeepService
    updates: UpdateController
    workloads: WorkloadService
    dry_runs: DryRun
    share: Shard
    is_replica: bool
    """Whether other replicas have pages of their own."""

    def problems(self) -> tuple[str, ...]:
        """Return what keeps the controller from syncing, empty where nothing does."""
        # once each: one cause, such as revoked credentials, is the problem of all parts
        return tuple(dict.fromkeys(part.problem for part in self.parts if part.problem))

    def owns(self, key: str) -> bool:
        """Return whether this process works on an Application."""
        return self.share.owns(key)

    def start(self) -> None:
        """Connect to the cluster and start syncing."""
        self.manager.start()

    def stop(self) -> None:
        """Stop, after the writes under way have ended."""
        self.manager.stop()


@dataclass(frozen=True, slots=True)
class Adapters:
    """The implementations of all ports; ``pool`` runs parallel writes."""

    cluster: Cluster
    live: LiveCache
    records: Records
    source: Source
    renderer: Renderer
    clock: Clock
    pool: Executor
    reasoner: Reasoner | None = None
    metrics: MetricsProvider | None = None
    builds: RenderStore | None = None
    traces: ReconcileSink | None = None
    namespace: str = ""
    """The namespace of the controller, empty where it has none in this cluster."""
    key_services: KeyServices = field(default_factory=KeyServices)


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The group that a further controller process belongs to: its name, and the data folder of the first process."""

    name: str
    data: Path


def group_name(settings: Settings) -> str:
    """Return the name of the controller of a data folder, which all its processes share."""
    settings.data.mkdir(parents=True, exist_ok=True)
    return identity_in(settings.data, socket.gethostname())


def _concealed(settings: Settings) -> Concealed:
    """Return what renders and git may not read: credentials, and what the controller stores besides mirrors."""
    mirrors = settings.data / "mirrors"
    # before a render process starts: what does not exist then cannot be shown to it
    mirrors.mkdir(parents=True, exist_ok=True)
    kubeconfigs = [*os.environ.get("KUBECONFIG", "").split(os.pathsep), settings.kubeconfig]
    files = [settings.users, settings.policies, settings.notifications, settings.audit_heads]
    hidden = [
        settings.data,
        # the token of the ServiceAccount
        Path("/var/run/secrets"),
        Path.home() / ".kube",
        *(Path(name) for name in kubeconfigs if name),
        *(file for file in files if file is not None),
    ]
    return Concealed.but(hidden, [mirrors])


def build_controller(settings: Settings, policy: Policy | None = None, group: ProcessGroup | None = None) -> Engine:
    """
    Return a controller for these settings, not started; raise a GitsyncError when it cannot be built.

    It is a further process of ``group`` where one is given, and otherwise the first process of its machine.
    """
    # before anything is opened: replicas on SQLite would write to one file each
    _check_replicas(settings)
    settings.data.mkdir(parents=True, exist_ok=True)
    clock = SystemClock()
    database = RecordDatabase(settings.database_url)
    records = SqlRecords(database, AuditHeads(settings.audit_heads))
    concealed = _concealed(settings)
    source = settings.repositories(
        settings.data / "mirrors", file_urls=settings.allow_file_urls, confinement=Confinement(concealed)
    )
    renderer = RenderPool(
        settings.render_workers,
        settings.render_seconds,
        settings.render_memory,
        settings.file_mib,
        concealed=concealed,
    )
    client = _client(settings)
    members, exclusive = _leases(settings, LeaseMemberStore(client, settings.namespace), group)
    share: Shard = members or SingleReplica()
    # fenced: each write checks the Lease right before it is sent (decision 0011)
    cluster = FencedCluster(client, share)
    live = InformerCache(client, _listed(settings.namespaces))
    pool = ElasticPool(settings.writes, name="write")
    reasoner = Advisor(settings.reasoner_hosts.split(","), clock, records)
    metrics = _metrics(settings, clock)
    # all namespaces at once, unless the controller may read some only
    spaces = settings.namespaces_read
    pod_usage = PodUsage(
        lambda: chain.from_iterable(listed(client, cluster, POD_METRICS, space) for space in spaces), clock
    )
    builds = KeptBuilds((group or settings).data / "builds")
    # at the start only: it deletes what nothing has used for 30 days
    builds.clean()
    traces = TraceExporter(settings.traces) if settings.traces else None
    adapters = Adapters(
        cluster,
        live,
        records,
        source,
        renderer,
        clock,
        pool,
        reasoner,
        metrics,
        builds,
        traces,
        settings.namespace,
        settings.key_services(),
    )
    policy_set = PolicySet((policy,)) if policy else _read_policies(settings)
    policies = Policies(cluster, live, source, policy_set)
    bases = _remote_bases(adapters, policies)
    applications, state = build_engine(
        adapters,
        policies,
        bases=bases,
        share=share,
        workers=settings.workers,
        appliers=frozenset(_listed(settings.adopt_managers)) or APPLIERS,
        # processes of one machine divide the Applications to divide the work; only the status of others is shown
        observes_others=settings.replicas,
    )
    rights = WriteRights(policies.of, settings.default_service_account)
    agents = build_operator(
        adapters,
        state.declarations,
        rights,
        share=share,
        workers=settings.workers,
        wave_limit=WaveLimit.parse(settings.agent_wave),
    )
    sets = build_sets(adapters, applications.watcher, policies, share=share)
    controllers = (applications, agents, sets)

    def sizes() -> Sizes:
        entries = {
            "events": state.views.kept_events,
            "applications": applications.cached(),
            "applicationsets": sets.cached(),
            "mirrors": source.opened(),
        }
        stored = None
        with suppress(RecordUnavailable):
            stored = records.size()
        disk = None
        with suppress(OSError):  # the volume is detached: what cannot be measured is left out
            usage = shutil.disk_usage(settings.data)
            disk = DiskSpace(usage.total, usage.free)
        return Sizes(live.counts(), entries, stored, disk)

    view = StateView(state, LiveObjects(cluster, live, state.views), sizes)

    def enqueue_all() -> None:
        _each(controller.enqueue_all for controller in controllers)

    if members is not None:
        # the watches have no event for it: objects of the new share did not change
        members.on_change = lambda: _each((applications.enqueue_moved, agents.enqueue_all, sets.enqueue_all))
    live.subscribe(
        lambda old, new: _each(partial(controller.on_object_change, old, new) for controller in controllers),
        enqueue_all,
    )
    secrets = ApplicationSecrets(cluster, live, policies.all_of)
    hosts = ApiHosts(source.transport)
    pull_requests = PullRequestController(
        PullRequestPorts(
            source,
            hosts,
            renderer,
            view,
            clock,
            share,
            secrets.credentials,
            SqlProposals(database),
            policies.application,
            partial(read_files, settings.policies) if settings.policies else dict,
            settings.web_url,
            settings.controller_rights,
            HostApprovals(policies.of, UserRequests(records, applications, clock, policies.of).approve),
            secrets.chart_inputs,
            bases.fetch,
        )
    )
    proposals = AdoptService(source, hosts, secrets.credentials)

    def state_of(key: str) -> AppState | None:
        known = view.application(key)
        return AppState(known.application, known.status) if known is not None and known.application else None

    update_ports = UpdatePorts(
        source,
        bases,
        renderer,
        proposals,
        # one for each: an Application's token opens what its Secret may read, and nothing of another one
        lambda app: Registries(partial(secrets.registry_password, app)),
        clock,
        secrets.credentials,
        policies.of,
        state_of,
        view.live,
        lambda key, ref: running_digests(view.live(key, ref), live),
    )

    def tag_moved(key: str, ref: ObjectRef, text: str) -> None:
        state.views.report(key, "tag-moved", ref, text, clock.now())

    updates = UpdateController(
        UpdateControllerPorts(
            UpdateService(update_ports), view, share, clock, records, applications.poll_now, tag_moved
        )
    )
    details = ApiObjectDetails(client)
    audit = partial(ConfigurationAudit, records, clock)
    receivers = _receivers(settings)
    channels = _channels(receivers, settings.web_url, details)
    # in the order of their start, and stopped in reverse: what others use is closed last
    parts: list[Runnable] = [
        GarbageCollection(),
        _CloseOnStop(records.close),
        Retention(records, clock, days=settings.audit_days, keep=settings.audit_records),
        _CloseOnStop(renderer.close),
        _CloseOnStop(source.close),
        _CloseOnStop(reasoner.close),
        *([_CloseOnStop(metrics.close)] if metrics else []),
        _CloseOnStop(pod_usage.close),
        *([traces] if traces is not None else []),
        _CloseOnStop(client.close),
        _CloseOnStop(lambda: pool.shutdown(cancel_futures=True)),
        _CloseOnStop(live.stop),
        # not fenced: a replica may install them before it has a Lease
        CrdInstaller(KubernetesCluster(client), install=settings.install_crds),
        # before the controllers: without a Lease nothing may be reconciled
        *(part for part in (exclusive, members) if part is not None),
        applications,
        agents,
        sets,
        pull_requests,
        updates,
        # after them: a mirror is unused only once all Applications have been listed
        MirrorCleanup(source, lambda: applications.repositories() | sets.repositories() | bases.repositories),
        *_policy_reloader(settings, policies, audit(POLICY), enqueue_all),
        *([UserAudit(settings.users, audit(USERS))] if settings.users else []),
        *([Notifier(view, clock, channels, share.owns)] if channels else []),
    ]
    reverts = RevertService(source, secrets, policies.signers, hosts)
    return Engine(
        manager=Manager(parts),
        view=view,
        requests=applications,
        sets=sets,
        records=records,
        sessions=SqlSessions(database),
        views=SqlViews(database),
        source=source,
        cluster=cluster,
        reverts=reverts,
        provenance=FieldProvenance(source, bases, secrets.credentials),
        preview=RevertPreview(source, bases, secrets.credentials),
        details=details,
        policies=policies,
        usage=TokenUsage(metrics, metrics),
        pod_usage=pod_usage,
        receivers=receivers,
        clock=clock,
        parts=(*(lease for lease in (exclusive, members) if lease is not None), *controllers),
        pull_requests=pull_requests,
        share=share,
        is_replica=settings.replicas,
        workloads=WorkloadService(cluster, clock),
        dry_runs=DryRun(cluster),
        keeps=KeepService(source, bases, renderer, proposals, secrets.credentials),
        updates=updates,
    )


def _leases(
    settings: Settings, store: LeaseMemberStore, group: ProcessGroup | None
) -> tuple[Membership | None, ExclusiveLease | None]:
    """
    Return what divides the Applications with other processes, and what keeps other controllers away.

    Replicas, and their processes, are all members of one set. Otherwise the processes of one machine are members of
    a set of their own, and the first of them keeps every other controller away.
    """
    if settings.replicas:
        return Membership(store, _identity(), duration=settings.lease_seconds), None
    name = group.name if group is not None else group_name(settings)
    if group is None and settings.processes == 1:
        return None, ExclusiveLease(store, name, duration=settings.lease_seconds)
    # two views of the same Leases: those of the group's processes, and those of every other controller
    inside, outside = (GroupLeases(store, name, is_inside=is_inside) for is_inside in (True, False))
    members = Membership(inside, holder_in(name, uuid.uuid4().hex[:8]), duration=settings.lease_seconds)
    return members, ExclusiveLease(outside, name, duration=settings.lease_seconds) if group is None else None


def _read_policies(settings: Settings) -> PolicySet:
    return read_policies(settings.policies, settings.prometheus, controller_rights=settings.controller_rights)


def _policy_reloader(
    settings: Settings, policies: Policies, audit: ConfigurationAudit, on_change: Callable[[], None]
) -> tuple[PolicyReloader, ...]:
    """Return the component that follows the policy files, where there are any."""
    if settings.policies is None:
        return ()
    rights = settings.controller_rights
    return (PolicyReloader(settings.policies, policies, audit, on_change, controller_rights=rights),)


def _remote_bases(adapters: Adapters, policies: Policies) -> RemoteBases:
    secrets = ApplicationSecrets(adapters.cluster, adapters.live, policies.all_of)
    return RemoteBases(adapters.renderer, adapters.source, secrets.credentials, policies.all_of, secrets.chart_inputs)


def _client(settings: Settings) -> Client:
    # each watch holds a connection for as long as it runs
    connections = settings.writes + _OTHER_CONNECTIONS
    return Client(Connection(settings.kubeconfig, settings.context, connections, settings.cluster_seconds))


def _metrics(settings: Settings, clock: SystemClock) -> Prometheus | None:
    if not settings.prometheus:
        return None
    return Prometheus(settings.prometheus, clock, token=settings.prometheus_token_file)


def build_engine(
    adapters: Adapters,
    policies: Policies | None = None,
    *,
    bases: RemoteBases | None = None,
    share: Shard | None = None,
    workers: int = 4,
    appliers: frozenset[str] = APPLIERS,
    observes_others: bool = False,
) -> tuple[ApplicationController, EngineState]:
    """Return the controller, not started, and its state, connected to these adapters."""
    cluster = adapters.cluster
    live = adapters.live
    records = adapters.records
    clock = adapters.clock
    ports = Ports(cluster, live, records, clock)
    share = share or SingleReplica()
    statuses = StatusWriter(cluster, live)
    costs = Costs(adapters.traces)
    # waiting is measured where a key leaves the queue
    # by namespace: slow renders of one tenant must not hold every worker
    share_of_tenant = FairShare[str].of_all(workers, lambda key: key.partition("/")[0])
    queue = WorkQueue(on_hand_out=costs.waited, fair_share=share_of_tenant)
    state = EngineState.empty(queue.add, costs)
    # an answer enqueues the owner whose write it was
    pool = WritePool(adapters.pool, queue.add, lambda: share.may_write)
    if isinstance(share, SingleReplica):
        pool = replace(pool, is_only_writer=True)
    else:
        # processes of one machine are replicas too
        pool = replace(pool, is_current=partial(is_current, cluster, state.declarations, share.owns))
    writes = WritesByOwner(ports, pool)
    applier = Applier(ports, writes)
    executor = SyncExecutor(ports, applier, writes, Hooks(applier, cluster, live), state.declarations)
    policies = policies or Policies(cluster, live, adapters.source)
    secrets = ApplicationSecrets(cluster, live, policies.all_of)
    advice = AdviceGate(adapters.reasoner, secrets)
    gate = SyncGate(records, clock, advice, policies)
    # with the policies as they are at each plan: they may be replaced at any time
    planner = Planner(cluster, state.declarations, adapters.pool, PlanRules(appliers, policies.of), share.owns)
    view = ClusterView(cluster, live, state.tracked, state.declarations, policies.unreadable, state.executions.of)
    evaluator = SyncEvaluator(view, planner)
    repairer = Repairer(ports, applier, policies)
    drift = DriftLog(records, state.drift, clock)
    replacer = Replacer(ports, applier, policies)
    planning = Planning(evaluator, gate)
    writers = ClusterWriters(writes, executor, repairer, replacer, ObjectEvaluator(ports, applier, policies))
    reconciler = Reconciler(planning, writers, statuses, drift, clock)
    fetcher = Fetcher(adapters.source, secrets, SignatureCheck(verify_revision, policies.signers), clock)
    watcher = GitWatcher(adapters.source, state.declarations, clock)
    bases = bases or _remote_bases(adapters, policies)
    desired = DesiredState(
        fetcher, bases, cluster, Decryptor(secrets.decryption_keys, adapters.key_services), adapters.builds
    )
    analysis = PostSyncAnalysis(records, adapters.metrics)
    deletion = DeletionReconciler(desired, planning, reconciler, statuses, Installation(cluster, adapters.namespace))
    settled = SettledReconciler(cluster, live, planner, state.views)
    relay = Relay(planning, desired, state, records, share.owner_of, observes_all=observes_others)
    stages = ReconcileStages(fetcher, watcher, desired, reconciler, deletion, settled, analysis, relay)
    pipeline = Pipeline(stages, ports, writes, statuses, state)
    own = Workers(ports, writes, share, workers)
    applications = ApplicationController(pipeline, watcher, state, queue, own)
    return applications, state


def build_operator(
    adapters: Adapters,
    declarations: Declarations,
    rights: WriteRights | None = None,
    *,
    share: Shard | None = None,
    workers: int = 4,
    wave_limit: WaveLimit = DEFAULT_LIMIT,
) -> AgentController:
    """Return the controller of Agents and MultiAgentSystems, not started, connected to these adapters."""
    cluster = adapters.cluster
    live = adapters.live
    ports = Ports(cluster, live, adapters.records, adapters.clock)
    share = share or SingleReplica()
    # a lambda: the controller is created below, and needs these writes itself
    pool = WritePool(adapters.pool, lambda key: controller.enqueue_owner(key), lambda: share.may_write)
    writes = WritesByOwner(ports, pool)
    applier = Applier(ports, writes)
    # no appliers: Agents are applied by the operator alone, and nothing is taken over from kubectl
    planner = Planner(cluster, declarations, adapters.pool, PlanRules(frozenset()))
    rights = rights or WriteRights(Policies(cluster, live, adapters.source).of)
    child_reconciler = ChildrenReconciler(ports, planner, applier, writes, rights)
    statuses = StatusWriter(cluster, live)
    ownership = Ownership(cluster, live, declarations)
    agents = AgentReconciler(ports, child_reconciler, statuses, adapters.metrics, ownership, wave_limit)
    systems = SystemReconciler(ports, child_reconciler, writes, statuses, ownership)
    installation = Installation(cluster, adapters.namespace)
    reported, reported_systems = (
        ReportingReconciler(
            RemovalGuard(reconciler, child_reconciler, cluster, installation, ownership), statuses, adapters.clock
        )
        for reconciler in (agents, systems)
    )
    controller = AgentController(reported, reported_systems, Workers(ports, writes, share, workers))
    return controller


def build_sets(
    adapters: Adapters, watcher: GitWatcher, policies: Policies, *, share: Shard | None = None
) -> ApplicationSetController:
    """Return the controller of ApplicationSets, not started, connected to these adapters."""
    cluster = adapters.cluster
    live = adapters.live
    ports = Ports(cluster, live, adapters.records, adapters.clock)
    share = share or SingleReplica()
    pool = WritePool(adapters.pool, lambda key: controller.enqueue_answered(key), lambda: share.may_write)
    writes = WritesByOwner(ports, pool)
    secrets = ApplicationSecrets(cluster, live, policies.all_of)
    fetcher = Fetcher(adapters.source, secrets, SignatureCheck(verify_revision, policies.signers), adapters.clock)
    reconciler = SetReconciler(
        ports,
        SetSources(fetcher, watcher, policies.all_of),
        SetWriter(Applier(ports, writes), writes),
        StatusWriter(cluster, live),
    )
    controller = ApplicationSetController(reconciler, Workers(ports, writes, share, _SET_WORKERS))
    # sets share the queries of Applications, so that their keys come from the same watcher
    watcher.route(lambda key: controller.enqueue(key))
    return controller


def _each(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


class _CloseOnStop:
    """A part of the controller that is only closed."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close

    def start(self) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Close the part."""
        self._close()


def _receivers(settings: Settings) -> Receivers:
    """Return where notices go; raise InvalidInput for a file of rules that is not valid."""
    rules = read_rules(settings.notifications) if settings.notifications is not None else ()
    return Receivers(rules, settings.kubernetes_events)


def _channels(receivers: Receivers, web_url: str, details: ApiObjectDetails) -> list[NoticeChannel]:
    channels: list[NoticeChannel] = [AppriseChannel(rule, web_url) for rule in receivers.rules]
    return [*channels, *([EventChannel(details)] if receivers.has_events else [])]


def _identity() -> str:
    """Return a name that is unique among all processes, including later ones on this machine."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"


def _listed(text: str) -> tuple[str, ...]:
    """Return the members of a comma-separated list."""
    return tuple(sorted({part.strip() for part in text.split(",")} - {""}))


def _check_replicas(settings: Settings) -> None:
    """Raise InvalidInput for replicas with SQLite, which they cannot share."""
    # each replica would have an audit chain of its own
    if settings.replicas and settings.database_url.startswith("sqlite"):
        raise InvalidInput(
            "replicas need a shared database, and SQLite is a file on one machine",
            location="GITSYNC_DATABASE",
            hint="name a PostgreSQL database such as postgresql://gitsync@db/gitsync, or unset GITSYNC_REPLICAS",
        )
