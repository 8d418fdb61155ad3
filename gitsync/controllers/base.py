"""What all controllers share: a queue, watched kinds, a shard of the work, and the owners of unresolved writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import ClusterUnavailable, GitsyncError
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import VERSION
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.ref import GroupKind, ref_of
from gitsync.ports import ApiResource, Ports
from gitsync.runtime.controller import Controller
from gitsync.runtime.membership import Shard, SingleReplica
from gitsync.runtime.workqueue import WorkQueue

Key = TypeVar("Key", bound=Hashable)

DEBOUNCE = 0.03
"""Debounce window in seconds: events within it cause one reconcile."""
_FIRST_LIST = 30.0
"""Seconds that the start waits for the first list of the own kinds: without it, each key would seem deleted."""
_ANSWER_POLL = 1.0
"""Seconds until it is checked again whether the running writes of a deleted owner were answered."""


@dataclass(frozen=True, slots=True)
class Workers:
    """What a controller works with: its ports, the writes of its owners, its shard, and its number of threads."""

    ports: Ports
    writes: WritesByOwner
    share: Shard = field(default_factory=SingleReplica)
    count: int = 4


class BaseController(ABC, Generic[Key]):
    """
    Reconcile objects of some kinds, level-based: a key names one of them, never what happened.

    The key ``unresolved`` is not of an object: its reconcile enqueues the owners of unresolved writes, since no event
    follows for one that was deleted while no controller ran. It is a key so that the queue repeats it after an error.
    """

    def __init__(self, kinds: tuple[GroupKind, ...], unresolved: Key, queue: WorkQueue[Key], workers: Workers) -> None:
        self._kinds = kinds
        self._unresolved = unresolved
        self._queue = queue
        self._cluster = workers.ports.cluster
        self._live = workers.ports.live
        self._clock = workers.ports.clock
        self._writes = workers.writes
        self._share = workers.share
        self._resources: dict[GroupKind, ApiResource] = {}
        name = kinds[0].kind.lower()
        self._controller = Controller(name, queue, self.reconcile, workers=workers.count)

    def start(self) -> None:
        """Watch the own kinds and start the workers; raise ClusterUnavailable where a kind is not served."""
        scopes = []
        for of in self._kinds:
            resource = self._resource(of)
            if resource is None:
                hint = "install the CRDs (gitsync run does when allowed)"
                raise ClusterUnavailable(f"the cluster does not serve {of.kind}", hint=hint)
            scopes.append((resource, ""))
        self._live.follow(scopes, _FIRST_LIST)
        self._on_first_list()
        # before any other key: owners that were deleted meanwhile have no object whose event would enqueue them
        self._queue.add(self._unresolved)
        self._controller.start()

    @property
    def problem(self) -> str:
        """Why the own kinds are not known as they are now, empty where they are."""
        try:
            # without waiting: the start has waited for the first lists, and a watch that fails has its error at once
            self._live.follow([(resource, "") for resource in self._resources.values()], 0.0)
        except GitsyncError as error:
            return str(error)
        return "" if self._resources else f"{self._kinds[0].kind} has not been listed yet"

    def stop(self) -> None:
        """Stop after running reconciles have ended."""
        self._controller.stop()

    def reconcile(self, key: Key) -> float | None:
        """Reconcile one object; return the seconds until the next reconcile, None where only an event changes it."""
        if key == self._unresolved:
            self._enqueue_unresolved()
            return None
        return self._reconcile(key)

    def queue_length(self) -> int:
        """Return how many keys wait for a worker."""
        return len(self._queue)

    @abstractmethod
    def _reconcile(self, key: Key) -> float | None:
        """Reconcile one object that may not exist any more, or that may be another replica's."""

    @abstractmethod
    def _key_of(self, owner: OwnerKey) -> Key | None:
        """Return the key of an owner, None for one of another controller."""

    def _on_first_list(self) -> None:
        """Prepare before the first reconcile; the own kinds are listed."""

    def _enqueue_unresolved(self) -> None:
        for owner in self._writes.unresolved_owners():
            key = self._key_of(OwnerKey.parse(owner))
            if key is not None:
                self._queue.add(key)

    def _conclude_writes(self, owner: str) -> float | None:
        """Audit an outcome for each write of an owner that is gone; return the seconds until that is tried again."""
        # running writes are answered within the time limit of a request; polling is enough for an owner that is gone
        if not self._writes.of(owner).conclude():
            return _ANSWER_POLL
        self._writes.forget(owner)
        return None

    def _resource(self, of: GroupKind) -> ApiResource | None:
        # kept once it is known: without discovery for a moment, no object must seem deleted
        resource = self._resources.get(of) or self._cluster.resource(of.group, VERSION, of.kind)
        if resource is not None:
            self._resources[of] = resource
        return resource

    def _all(self, of: GroupKind) -> tuple[Manifest, ...]:
        """Return all objects of one of the own kinds, as they were last seen; none before the start."""
        resource = self._resource(of)
        return self._live.all(resource) if resource is not None else ()

    def _get(self, owner: OwnerKey) -> Manifest | None:
        """Return an object of one of the own kinds, None when it is absent."""
        resource = self._resource(owner.of)
        # an error instead of None: absence would be taken for a deletion
        if resource is None:
            raise ClusterUnavailable(
                f"{owner.of.kind} is not watched yet", hint="wait until the controller has started"
            )
        return self._live.get(resource, owner.namespace, owner.name)


_LEASE = GroupKind("coordination.k8s.io", "Lease")
_EACH_TIME = ("resourceVersion", "managedFields")


def is_renewal(old: Manifest | None, new: Manifest | None) -> bool:
    """Whether a Lease was only renewed by the one that holds it, as each leader does every few seconds."""
    # only a Lease with the same holder: a change of the leader is of interest
    if old is None or new is None or new.get("kind") != _LEASE.kind or ref_of(new).of != _LEASE:
        return False
    return _kept(old) == _kept(new)


def _kept(lease: Manifest) -> tuple[object, ...]:
    metadata = {name: value for name, value in metadata_of(lease).items() if name not in _EACH_TIME}
    return (at(lease, "spec", "holderIdentity"), metadata)
