"""The manager of all controllers of the sandbox, connected to its API."""

from __future__ import annotations

from collections import defaultdict

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.api_services import ApiServices
from gitsync.sandbox.controllers.base import ADOPTABLE, ControllerContext, Queue, SandboxController, SimulationSettings
from gitsync.sandbox.controllers.endpoints import EndpointsController
from gitsync.sandbox.controllers.events import SeriesRecorder
from gitsync.sandbox.controllers.lifecycle.autoscaler import Autoscalers
from gitsync.sandbox.controllers.lifecycle.disruption import DisruptionBudgets
from gitsync.sandbox.controllers.lifecycle.garbage_collector import GarbageCollector
from gitsync.sandbox.controllers.lifecycle.namespaces import NamespaceContents, NamespaceLifecycle
from gitsync.sandbox.controllers.lifecycle.quotas import Quotas
from gitsync.sandbox.controllers.lifecycle.role_aggregation import ClusterRoles
from gitsync.sandbox.controllers.nodes.kubelet import Kubelet, create_nodes
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime
from gitsync.sandbox.controllers.nodes.scheduler import Scheduler
from gitsync.sandbox.controllers.object_meta import kind_of
from gitsync.sandbox.controllers.volumes import Claims, Volumes, create_storage_class
from gitsync.sandbox.controllers.workloads.cronjob import CronJobs
from gitsync.sandbox.controllers.workloads.daemonset import DaemonSets
from gitsync.sandbox.controllers.workloads.deployment import Deployments
from gitsync.sandbox.controllers.workloads.job import Jobs, JobTracking
from gitsync.sandbox.controllers.workloads.replicaset import ReplicaSets
from gitsync.sandbox.controllers.workloads.statefulset import StatefulSets
from gitsync.sandbox.registry.contract import ControllerClient, Timers

_ALWAYS: tuple[type[SandboxController], ...] = (
    GarbageCollector,
    NamespaceContents,
    NamespaceLifecycle,
    ClusterRoles,
    Quotas,
)
_WORKLOADS: tuple[type[SandboxController], ...] = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    JobTracking,
    CronJobs,
    Autoscalers,
    DisruptionBudgets,
    EndpointsController,
    ApiServices,
    Claims,
    Volumes,
    Scheduler,
    Kubelet,
)


class Controllers:
    """
    Run the controllers of a cluster, and its nodes, on the server's thread.

    Images that ``runtime`` runs are processes, others are simulated. Without ``workloads`` only garbage collection and
    the lifecycle of namespaces run.
    ``behaviour`` may be changed at any time.
    """

    def __init__(
        self, api: ControllerClient, timers: Timers, *, workloads: bool = True, runtime: ContainerRuntime | None = None
    ) -> None:
        self.behaviour = SimulationSettings()
        self._queue = Queue(timers)
        self._workloads = workloads
        self._context = ControllerContext(
            api, timers, self._queue, SeriesRecorder(api, timers), self.behaviour, runtime
        )
        kinds = _ALWAYS + _WORKLOADS if workloads else _ALWAYS
        self._controllers = tuple(kind(self._context) for kind in kinds)
        self._watchers: defaultdict[tuple[str, str], list[SandboxController]] = defaultdict(list)
        for controller in self._controllers:
            for watched in controller.watches:
                self._watchers[watched].append(controller)

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which controllers are paused."""
        return tuple(controller.name for controller in self._controllers)

    @property
    def paused(self) -> frozenset[str]:
        """The controllers that do nothing for now."""
        return frozenset(self._queue.paused)

    def pause(self, name: str) -> None:
        """Let a controller do nothing until it is resumed; KeyError when there is none of that name."""
        if name not in self.names:
            raise KeyError(name)
        self._queue.paused.add(name)

    def resume(self, name: str) -> None:
        """Let a controller catch up with what it missed."""
        self._queue.paused.discard(name)
        self._queue.wake()

    def start(self) -> None:
        """Take up what is stored, then follow every change."""
        api = self._context.api
        # Events first: they expire even if no controller reads them.
        for obj in list(api.everything()):
            if kind_of(obj) == ("", "Event"):
                self._context.recorder.resume(obj)
            self._observe("ADDED", obj, None)
        api.subscribe(self._observe)
        if self._workloads:
            create_nodes(api, self._context.now())
            if self.behaviour.storage_class:
                create_storage_class(api)

    def _observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        kind = kind_of(obj)
        # Before the controllers, which ask the index in their observe.
        if kind in ADOPTABLE:
            self._context.strays.observe(event, obj)
        for controller in self._watchers.get(kind, ()):
            controller.observe(event, obj, old)
        # Controllers that follow every kind come last: those of a kind create what others then see.
        for controller in self._watchers["*", "*"]:
            controller.observe(event, obj, old)
