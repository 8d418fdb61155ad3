"""The base class of the sandbox's controllers: a context, and one reconcile per key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest
from gitsync.sandbox.controllers.adoption import OrphanIndex, adopters
from gitsync.sandbox.controllers.client import ControllerClient, Timers
from gitsync.sandbox.controllers.events import Recorder
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, controller_key
from gitsync.sandbox.controllers.queue import Queue


@dataclass(slots=True)
class SimulationSettings:
    """How the simulated nodes and controllers behave; may be changed while they run. Times are sandbox seconds."""

    start_delay: float = 0.3
    """From the assignment of a pod to a node until its containers run."""
    stop_delay: float = 0.2
    """From the deletion of a pod until it is gone, when its grace period is not shorter."""
    run_time: float = 0.3
    """How long a container runs that is meant to end."""
    slow_delay: float = 5.0
    """How long a container of an image tagged ``slow`` runs until it is ready."""
    job_back_off: float = 1.0
    """From the first failure of a Job's pod until the next pod; each failure doubles it."""
    autoscale_period: float = 1.0
    """From one evaluation of an autoscaler's target until the next."""
    metrics: bool = True
    """Autoscalers have metrics: a metric that is not set equals its target."""
    storage_class: bool = True
    """Create the default StorageClass ``standard``."""
    ca_certificate: str = ""
    """What ``kube-root-ca.crt`` holds."""


@dataclass(slots=True)
class Context:
    """What controllers share."""

    api: ControllerClient
    timers: Timers
    queue: Queue
    recorder: Recorder
    behaviour: SimulationSettings
    runtime: ContainerRuntime | None = None
    strays: OrphanIndex = field(default_factory=OrphanIndex)

    def now(self) -> str:
        """Return the time as RFC 3339 with seconds."""
        return timestamp(self.timers.now())


class Controller:
    """
    Bring one kind of object to its desired state.

    ``observe`` only marks keys as dirty; ``reconcile`` reads all state and acts. A second run with nothing
    changed writes nothing.
    """

    name: ClassVar[str]
    watches: ClassVar[frozenset[tuple[str, str]]]
    """Group and kind of the objects whose changes ``observe`` wants to see."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.api = context.api

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the keys that an event concerns."""
        raise NotImplementedError

    def reconcile(self, key: Key) -> None:
        """Act on the state as it is now."""
        raise NotImplementedError

    def enqueue(self, key: Key) -> None:
        """Have a key reconciled soon."""
        self.context.queue.add(self, key)

    def mark_owners(self, dependent: Manifest, group: str, kind: str) -> None:
        """Have the object of a kind that controls this one reconciled, or else all that would adopt it."""
        key = controller_key(dependent, kind)
        for each in [key] if key else adopters(self.api, dependent, group, kind):
            self.enqueue(each)

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Have a key reconciled after a while; an earlier appointment stands."""
        self.context.queue.add_after(self, key, seconds)

    def write_status(self, obj: Manifest, status: Manifest, manager: str = MANAGER) -> None:
        """Write a status if it differs."""
        if obj.get("status") != status:
            self.api.update({**obj, "status": status}, manager=manager, subresource="status")
