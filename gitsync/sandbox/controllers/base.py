"""
What the controllers of the sandbox share: their queue of keys, and the adoption of objects.

Each key is queued once, and keys are reconciled in batches on the server's thread. A controller adopts orphans that it
selects, and releases objects that it no longer selects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar, Protocol

from gitsync.kube.selectors import matches
from gitsync.kube.times import timestamp
from gitsync.objects.manifest import Manifest, labels_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.events import SeriesRecorder
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    controller_key,
    controller_ref,
    is_deleting,
    key_of,
    owner_reference,
)
from gitsync.sandbox.errors import ApiError
from gitsync.sandbox.registry.contract import ControllerClient, Timers

# Keys between two turns of the server's loop: requests are answered meanwhile.
_BATCH = 10
# client-go starts at 5 ms and ends at 1000 s; a demo needs neither.
_FIRST_RETRY = 0.05
_LAST_RETRY = 30.0


class KeyReconciler(Protocol):
    """What the queue calls."""

    @property
    def name(self) -> str:
        """The name by which the reconciler is paused."""
        ...

    def reconcile(self, key: Key) -> None:
        """Act on the state as it is now; an ApiError means: again, later."""
        ...


class Queue:
    """
    Keep dirty keys, each once and in order, and reconcile them in turns on the server's thread.

    A refused reconcile is repeated with growing delay. The keys of a paused controller wait.
    """

    def __init__(self, timers: Timers) -> None:
        self.paused: set[str] = set()
        self._timers = timers
        self._dirty: OrderedDict[tuple[KeyReconciler, Key], None] = OrderedDict()
        self._delayed: dict[tuple[KeyReconciler, Key], tuple[float, Callable[[], None]]] = {}
        self._failures: dict[tuple[KeyReconciler, Key], int] = {}
        self._scheduled = False

    def add(self, reconciler: KeyReconciler, key: Key) -> None:
        """Enqueue a key; a key that is already queued is queued once."""
        self._dirty[reconciler, key] = None
        self.wake()

    def add_after(self, reconciler: KeyReconciler, key: Key, seconds: float) -> None:
        """Enqueue a key after a delay, unless it is scheduled earlier."""
        due = self._timers.now() + seconds
        planned = self._delayed.get((reconciler, key))
        if planned is not None:
            if planned[0] <= due:
                return
            # Cancel the later timer: each key has at most one.
            planned[1]()
        cancel = self._timers.call_later(seconds, lambda: self._enqueue_delayed(reconciler, key))
        self._delayed[reconciler, key] = (due, cancel)

    def _enqueue_delayed(self, reconciler: KeyReconciler, key: Key) -> None:
        self._delayed.pop((reconciler, key), None)
        self.add(reconciler, key)

    def wake(self) -> None:
        """Schedule the next batch."""
        if not self._scheduled:
            self._scheduled = True
            self._timers.call_later(0, self._run_batch)

    def _run_batch(self) -> None:
        """Reconcile some keys, then let the server answer requests before the next batch."""
        self._scheduled = False
        try:
            # A copy, because reconciles add keys while it is iterated.
            for item in list(islice(self._ready(), _BATCH)):
                del self._dirty[item]
                self._reconcile(*item)
        finally:
            # Also after an exception, or the queue would stop.
            if next(self._ready(), None):
                self.wake()

    def _ready(self) -> Iterator[tuple[KeyReconciler, Key]]:
        return (item for item in self._dirty if item[0].name not in self.paused)

    def _reconcile(self, reconciler: KeyReconciler, key: Key) -> None:
        try:
            reconciler.reconcile(key)
        # Refused by admission, quota or a conflict: the state may be another one later.
        except ApiError:
            failures = self._failures.get((reconciler, key), 0)
            self._failures[reconciler, key] = failures + 1
            self.add_after(reconciler, key, min(_FIRST_RETRY * 2**failures, _LAST_RETRY))
        else:
            self._failures.pop((reconciler, key), None)


ADOPTABLE = frozenset({("", "Pod"), ("apps", "ReplicaSet"), ("apps", "ControllerRevision")})


class OrphanIndex:
    """Index of adoptable objects without a controller, so that a search costs nothing while there are none."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], dict[str, None]] = {}

    def observe(self, event: str, obj: Manifest) -> None:
        """Follow one object."""
        namespace, name = key_of(obj)
        names = self._names.setdefault((obj["kind"], namespace), {})
        if event != "DELETED" and controller_ref(obj) is None:
            names[name] = None
        else:
            names.pop(name, None)

    def names(self, kind: str, namespace: str) -> tuple[str, ...]:
        """Return the names of the objects of a kind that have no controller."""
        return tuple(self._names.get((kind, namespace), ()))


def adopt(api: ControllerClient, strays: OrphanIndex, owner: Manifest, group: str, kind: str) -> None:
    """Add ``owner`` as controller to the selected objects that have none; release those not selected any more."""
    # The garbage collector may be about to orphan its dependents; adopting would undo that.
    if is_deleting(owner):
        return
    selector = owner["spec"].get("selector")
    uid = owner["metadata"]["uid"]
    namespace = owner["metadata"]["namespace"]
    for name in strays.names(kind, namespace):
        obj = api.get(group, kind, namespace, name)
        if obj is not None and not is_deleting(obj) and matches(selector, labels_of(obj)):
            _write(api, group, obj, [*(obj["metadata"].get("ownerReferences") or ()), owner_reference(owner)])
    # A copy: the writes below change the index that is iterated.
    for obj in list(api.owned_by(uid)):
        if obj["kind"] == kind and not is_deleting(obj) and not matches(selector, labels_of(obj)):
            references = obj["metadata"]["ownerReferences"]
            _write(api, group, obj, [reference for reference in references if reference["uid"] != uid])


def adopters(api: ControllerClient, stray: Manifest, group: str, kind: str) -> list[Key]:
    """Return the keys of the objects of a kind that would adopt this one."""
    if controller_ref(stray) is not None:
        return []
    candidates = api.list(group, kind, stray["metadata"]["namespace"])
    return [
        key_of(candidate) for candidate in candidates if matches(candidate["spec"].get("selector"), labels_of(stray))
    ]


def _write(api: ControllerClient, group: str, obj: Manifest, references: list[Manifest]) -> None:
    meta = obj["metadata"]
    # The uid is a precondition: an object recreated under the same name must not be adopted.
    patch = {"metadata": {"ownerReferences": references or None, "uid": meta["uid"]}}
    api.patch(ObjectRef(group, obj["kind"], meta["namespace"], meta["name"]), patch, manager=MANAGER)


@dataclass(slots=True)
class SimulationSettings:
    """How the simulated nodes and controllers behave; may be changed while they run. Times are sandbox seconds."""

    start_delay: float = 0.3
    """Seconds from the assignment of a pod to a node until its containers run."""
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
class ControllerContext:
    """What controllers share."""

    api: ControllerClient
    timers: Timers
    queue: Queue
    recorder: SeriesRecorder
    behaviour: SimulationSettings
    runtime: ContainerRuntime | None = None
    strays: OrphanIndex = field(default_factory=OrphanIndex)

    def now(self) -> str:
        """Return the time as RFC 3339 with seconds."""
        return timestamp(self.timers.now())


class SandboxController:
    """
    Bring one kind of object to its desired state.

    ``observe`` only marks keys as dirty; ``reconcile`` reads all state and acts. A second run with nothing
    changed writes nothing.
    """

    name: ClassVar[str]
    watches: ClassVar[frozenset[tuple[str, str]]]
    """Group and kind of the objects whose changes ``observe`` wants to see."""

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self.api = context.api

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark the keys that an event concerns."""
        raise NotImplementedError

    def reconcile(self, key: Key) -> None:
        """Act on the state as it is now."""
        raise NotImplementedError

    def enqueue(self, key: Key) -> None:
        """Enqueue a key for the next batch."""
        self.context.queue.add(self, key)

    def mark_owners(self, dependent: Manifest, group: str, kind: str) -> None:
        """Have the object of a kind that controls this one reconciled, or else all that would adopt it."""
        key = controller_key(dependent, kind)
        for owner_key in [key] if key else adopters(self.api, dependent, group, kind):
            self.enqueue(owner_key)

    def enqueue_after(self, key: Key, seconds: float) -> None:
        """Have a key reconciled after a delay in seconds; one that is due earlier keeps its time."""
        self.context.queue.add_after(self, key, seconds)

    def write_status(self, obj: Manifest, status: Manifest, manager: str = MANAGER) -> None:
        """Write a status if it differs."""
        # A no-op write would cost a request's work and report nothing.
        if obj.get("status") != status:
            self.api.update({**obj, "status": status}, manager=manager, subresource="status")
