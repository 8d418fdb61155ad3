"""The engine of one Application on fakes of its ports: a test commits manifests, reconciles, and reads the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gitsync.apply.execute import Applier
from gitsync.apply.hooks import Hooks
from gitsync.apply.owner_writes import WritePool, WritesByOwner
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import PolicySet
from gitsync.objects.application import parse_application
from gitsync.objects.keys import API_VERSION
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.applied import Declared
from gitsync.plan.options import options_of
from gitsync.ports import Ports
from gitsync.state.state import EngineState
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.credentials import ApplicationSecrets
from gitsync.sync.decision import AdviceGate, SyncGate
from gitsync.sync.drift_log import DriftLog
from gitsync.sync.evaluate import ClusterView, SyncEvaluator
from gitsync.sync.evaluations import ObjectEvaluator
from gitsync.sync.executor import SyncExecutor
from gitsync.sync.input import ReconcileInput, Target
from gitsync.sync.observe import build_desired
from gitsync.sync.planner import Planner, PlanRules
from gitsync.sync.policies import Policies
from gitsync.sync.reconciler import ClusterWriters, Planning, Reconciler
from gitsync.sync.repair import Repairer
from gitsync.sync.replacements import Replacer
from gitsync.sync.status.build import build_status
from gitsync.sync.status.report import Report
from gitsync.sync.status.writer import StatusWriter
from tests.fakes.ports import FakeClock, FakeCluster, FakeLive, FakePool, FakeRecords
from tests.fakes.source import FakeSource

KEY = "gitsync/shop"
URL = "https://git.example.com/shop.git"


class Engine:
    """One Application and everything that reconciles it, but for Git."""

    def __init__(
        self,
        policy: Policy | None = None,
        history: FakeRecords | None = None,
        cluster: FakeCluster | None = None,
        repository: FakeSource | None = None,
        **spec: Any,
    ) -> None:
        self.clock = FakeClock()
        self.cluster = cluster or FakeCluster()
        self.live = FakeLive(self.cluster)
        self.records = history or FakeRecords()
        self.pool = FakePool()
        self.enqueued: list[str] = []
        self.cache = ReconcileCache()
        self.commit = ""
        self.state = EngineState.empty(self.enqueued.append)
        self.cluster.put(_application(spec))
        port: Any = self.cluster
        records: Any = self.records
        self.ports = ports = Ports(port, self.live, records, self.clock)
        self.writes = WritesByOwner(ports, WritePool(self.pool, self.enqueued.append, patience=0.0))
        applier = Applier(ports, self.writes)
        self.source = repository or FakeSource()
        source: Any = self.source
        self.policies = policies = Policies(port, self.live, source, PolicySet((policy or Policy(),)))
        declarations = self.state.declarations
        advice = AdviceGate(None, ApplicationSecrets(port, self.live, policies.all_of))
        self.gate = SyncGate(records, self.clock, advice, policies)
        # dry runs in a pool of their own: of an object whose write is slow, they are not
        self.planner = Planner(port, declarations, FakePool(), PlanRules(policy_of=policies.of))
        view = ClusterView(port, self.live, self.state.tracked, declarations, policies.unreadable)
        self.evaluator = SyncEvaluator(view, self.planner)
        hooks = Hooks(applier, port, self.live)
        self.executor = SyncExecutor(ports, applier, self.writes, hooks, declarations)
        repairer = Repairer(ports, applier, policies)
        replacer = Replacer(ports, applier, policies)
        self.statuses = StatusWriter(port, self.live)
        drift = DriftLog(records, self.state.drift, self.clock)
        self.planning = Planning(self.evaluator, self.gate)
        writers = ClusterWriters(
            self.writes, self.executor, repairer, replacer, ObjectEvaluator(ports, applier, policies)
        )
        self.reconciler = Reconciler(self.planning, writers, self.statuses, drift, self.clock)
        self._commits: dict[str, tuple[Manifest, ...]] = {"": ()}

    @property
    def application(self) -> Manifest:
        return self.cluster.objects[ObjectRef("gitsync.dev", "Application", "gitsync", "shop")]

    @property
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.application.get("status") or {}
        return status

    def declare(self, commit: str, *manifests: Manifest) -> None:
        """Commit exactly these manifests."""
        self.commit = commit
        self._commits[commit] = manifests

    def reconcile(self) -> Report:
        """Reconcile once, and write the status."""
        report = Report(self.application, self.inputs())
        # as the pipeline does: what is suspended is only observed
        act = self.reconciler.observe if report.app.suspend else self.reconciler.reconcile
        act(report, self.cache, self.target())
        status = build_status(report)
        if status != self.status:
            self.cluster.put({**report.manifest, "status": status})
        return report

    def sync(self, commit: str, *manifests: Manifest) -> Report:
        """Commit manifests, and reconcile until nothing changes by itself."""
        self.declare(commit, *manifests)
        report = self.reconcile()
        for _ in range(5):
            if report.outcome.phase.value == "Synced":
                break
            report = self.reconcile()
        return report

    def inputs(self) -> ReconcileInput:
        inputs = ReconcileInput.unparsed(self.application, self.clock.now())
        inputs = inputs.parsed(self.application, self.cache.requested_by)
        return replace(inputs, repair=self.cache.requested_repair)

    def target(self) -> Target:
        desired = self._rendered(self.commit)
        options = {ref: options_of(manifest) for ref, manifest in desired.items()}
        applied = str((self.status.get("revision") or {}).get("applied", ""))
        return Target(
            Commit(self.commit, "Ada"),
            desired,
            options,
            self.commit,
            self.commit,
            load_applied=lambda: Declared(self._rendered(applied), ""),
        )

    def _rendered(self, commit: str) -> dict[ObjectRef, Manifest]:
        cluster: Any = self.cluster
        app = parse_application(self.application)
        return build_desired(app, self._commits[commit], cluster, self.cache.render.prepared)[0]

    def restart(self) -> None:
        """Lose what only this process knows."""
        self.cache = ReconcileCache()
        self.writes.forget(KEY)

    def edit(self, **spec: Any) -> None:
        """Change the spec of the Application."""
        live = self.application
        generation = live["metadata"]["generation"] + 1
        self.cluster.put(
            {**live, "metadata": {**live["metadata"], "generation": generation}, "spec": {**live["spec"], **spec}}
        )

    def written(self) -> list[tuple[str, str]]:
        """Return the writes of declared objects since the last call."""
        writes = [(verb, name) for verb, name in self.cluster.writes if name != "shop"]
        self.cluster.writes.clear()
        return writes


def _application(spec: dict[str, Any]) -> Manifest:
    given = {
        "source": {"repoURL": URL, "path": "shop"},
        "destination": {"namespace": "prod"},
        "risk": {"approval": "Never"},
        **spec,
    }
    metadata = {"name": "shop", "namespace": "gitsync", "generation": 1}
    return {"apiVersion": API_VERSION, "kind": "Application", "metadata": metadata, "spec": given}


def config_map(name: str, annotations: dict[str, str] | None = None, **data: str) -> Manifest:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def job(name: str, **annotations: str) -> Manifest:
    """Return a Job; annotations are named without the domain."""
    prefixed = {f"gitsync.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": prefixed}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {}}


def data_of(engine: Engine, name: str) -> Mapping[str, str] | None:
    """Return the data of a live ConfigMap, None where it does not exist."""
    live = engine.cluster.objects.get(ObjectRef("", "ConfigMap", "prod", name))
    data: Mapping[str, str] | None = live.get("data") if live is not None else None
    return data


def with_uid(engine: Engine, name: str) -> str:
    return uid_of(engine.cluster.objects[ObjectRef("", "ConfigMap", "prod", name)])


def edited(engine: Engine, name: str, **data: str) -> None:
    """Change the data of a live ConfigMap as a user would."""
    live = engine.cluster.objects[ObjectRef("", "ConfigMap", "prod", name)]
    engine.cluster.put({**live, "data": {**live["data"], **data}})


__all__ = ["KEY", "URL", "Engine", "config_map", "data_of", "edited", "job", "with_uid"]
