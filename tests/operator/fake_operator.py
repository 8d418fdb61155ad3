"""An Agent and the operator that reconciles it, on fakes of the ports: a test decides what Pods and Jobs do."""

from __future__ import annotations

from typing import Any

from gitsync.apply.execute import Applier
from gitsync.apply.owner_writes import WritePool, WritesByOwner
from gitsync.gate.policy import Policy
from gitsync.objects.conditions import find_condition
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ref_of
from gitsync.operator.agents import AgentReconciler
from gitsync.operator.child_reconciler import ChildrenCache, ChildrenReconciler, WriteRights
from gitsync.operator.ownership import Ownership
from gitsync.ports import MetricsProvider, Ports
from gitsync.state.declarations import Declarations
from gitsync.sync.planner import Planner, PlanRules
from gitsync.sync.status.writer import StatusWriter
from tests.agents.factories import agent
from tests.fakes.ports import FakeClock, FakeCluster, FakeLive, FakePool, FakeRecords

AGENT = ref_of(agent())


class Operator:
    """One Agent, and all that reconciles it."""

    def __init__(self, cluster: FakeCluster | None = None, metrics: MetricsProvider | None = None, **spec: Any) -> None:
        self.cluster = cluster or FakeCluster()
        self.metrics = metrics
        self.records = FakeRecords()
        self.clock = FakeClock()
        self.live = FakeLive(self.cluster)
        self.start()
        self.put(agent(**spec))

    def start(self) -> None:
        """Start a process of the operator, which knows nothing of the one before."""
        self.cache = ChildrenCache()
        parts: Any = (self.cluster, self.live, self.records, self.clock)
        ports = Ports(*parts)
        writes = WritesByOwner(ports, WritePool(FakePool(), lambda key: None, patience=0.0))
        declarations = Declarations()
        planner = Planner(ports.cluster, declarations, FakePool(), PlanRules(frozenset()))
        rights = WriteRights(lambda app: Policy())
        children = ChildrenReconciler(ports, planner, Applier(ports, writes), writes, rights)
        self.reconciler = AgentReconciler(
            ports,
            children,
            StatusWriter(ports.cluster, ports.live),
            self.metrics,
            Ownership(ports.cluster, ports.live, declarations),
        )

    def put(self, manifest: Manifest, **metadata: Any) -> None:
        """Write the Agent as a user does; a changed spec is another generation."""
        live = self.cluster.objects.get(AGENT, {})
        generation = metadata_of(live).get("generation", 0) + (live.get("spec") != manifest["spec"])
        about = {**metadata_of(manifest), "generation": generation, **metadata}
        self.cluster.put({**manifest, "metadata": about, "status": live.get("status") or {}})

    def reconcile(self) -> float | None:
        return self.reconciler.reconcile(self.cluster.objects[AGENT], self.cache)

    def run(self, seconds: float = 0.0) -> float | None:
        """Reconcile after these seconds; the Pods of each workload are ready then."""
        self.clock.seconds += seconds
        delay = self.reconcile()
        self.start_pods()
        return delay

    def settle(self) -> float | None:
        """Reconcile until nothing is to be done at once; the Pods of each workload are ready meanwhile."""
        for _ in range(8):
            delay = self.run()
            if delay != 0.0 and self.status.get("phase") == "Running":
                return delay
        return delay

    def start_pods(self) -> None:
        """Report of each Deployment what its controller does once all Pods are ready."""
        for ref, live in list(self.cluster.objects.items()):
            if ref.kind == "Deployment":
                replicas = live["spec"].get("replicas", 1)
                counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
                status = {"observedGeneration": 1, **dict.fromkeys(counts, replicas)}
                self.cluster.put({**live, "metadata": {**live["metadata"], "generation": 1}, "status": status})

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.cluster.objects[AGENT].get("status") or {}
        return status

    def condition(self, type: str) -> dict[str, Any]:
        return dict(find_condition(self.status, type))

    def children(self) -> set[str]:
        """Return the kinds of the children."""
        return {ref.kind for ref in self.cluster.objects} - {"Agent", "Event"}

    def deployment(self) -> Manifest:
        (live,) = (live for ref, live in self.cluster.objects.items() if ref.kind == "Deployment")
        return live

    def named(self, kind: str, prefix: str = "") -> list[Manifest]:
        """Return the objects of a kind whose names begin with a prefix."""
        return [live for ref, live in self.cluster.objects.items() if ref.kind == kind and ref.name.startswith(prefix)]

    def end_job(self, prefix: str, condition: str) -> None:
        """End the only Job whose name begins so: ``condition`` is Complete or Failed."""
        (job,) = self.named("Job", prefix)
        status = {"conditions": [{"type": condition, "status": "True", "message": "it ended"}]}
        self.cluster.put({**job, "status": status})

    def created(self, prefix: str) -> int:
        """Return how often an object whose name begins so was applied."""
        return sum(name.startswith(prefix) for verb, name in self.cluster.writes if verb in ("apply", "create"))
