"""What the engine knows, what it costs, and what users may request of it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from gitsync.objects.application import Application
from gitsync.objects.change import Change, FieldDifference, Plan, Verdict
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.phase import SyncStatus
from gitsync.objects.record import Push
from gitsync.objects.ref import ObjectRef
from gitsync.plan.parts import Choice
from gitsync.plan.running import Execution, RunningFinding
from gitsync.runtime.work_costs import Interval

# from one request to the API server, about a millisecond, to a slow render or Git server
BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds of the buckets of a distribution; one more bucket has what took longer."""


class Spent(NamedTuple):
    """Seconds, and CPU seconds of the thread that spent them."""

    seconds: float = 0.0
    cpu: float = 0.0

    def plus(self, other: Spent) -> Spent:
        """Return the sum."""
        return Spent(self.seconds + other.seconds, self.cpu + other.cpu)


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What an Application cost since the controller started.

    That are full reconciles, those of changed objects only, requests to the API server, and the time of each stage.
    """

    full: int = 0
    partial: int = 0
    requests: int = 0
    stages: Mapping[str, Spent] = field(default_factory=dict)

    def plus(self, other: Cost) -> Cost:
        """Return the sum."""
        stages = {
            name: self.stages.get(name, Spent()).plus(other.stages.get(name, Spent()))
            for name in (*self.stages, *(name for name in other.stages if name not in self.stages))
        }
        return Cost(self.full + other.full, self.partial + other.partial, self.requests + other.requests, stages)

    @property
    def total(self) -> Spent:
        """The sum of all stages."""
        sums = map(sum, zip(*self.stages.values(), strict=True)) if self.stages else ()
        # zip of no stages is empty, and Spent() needs two numbers or none
        return Spent(*sums)


class Exemplar(NamedTuple):
    """A reconcile that a distribution counts: the id of its trace, its seconds, and when it ended, since 1970."""

    trace: str
    seconds: float
    time: float


@dataclass(frozen=True, slots=True)
class Distribution:
    """
    How long something took: the number of times in each bucket of ``BOUNDS``, and the sum of their seconds.

    ``exemplars`` has the last one of each bucket that has a trace.
    """

    # one more than the bounds: the last bucket has no upper bound
    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    seconds: float = 0.0
    exemplars: tuple[Exemplar | None, ...] = (None,) * (len(BOUNDS) + 1)

    def plus(self, seconds: float, exemplar: Exemplar | None = None) -> Distribution:
        """Return it with one more value. It is a new one: readers have the old one without a lock."""
        bucket = bisect_left(BOUNDS, seconds)
        counts = (*self.counts[:bucket], self.counts[bucket] + 1, *self.counts[bucket + 1 :])
        exemplars = self.exemplars
        if exemplar is not None:
            exemplars = (*exemplars[:bucket], exemplar, *exemplars[bucket + 1 :])
        return Distribution(counts, self.seconds + seconds, exemplars)


@dataclass(frozen=True, slots=True)
class DriftTotals:
    """Objects that others changed, by kind and manager, how long restoring them took, and how often that failed."""

    detected: Mapping[tuple[str, str], int] = field(default_factory=dict)
    heals: Distribution = field(default_factory=Distribution)
    failed: int = 0


class DiskSpace(NamedTuple):
    """Bytes of a file system, and those of them that can still be written."""

    size: int
    available: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many live objects are cached, by resource such as ``deployments.apps``, and how many entries others have."""

    objects: Mapping[str, int] = field(default_factory=dict)
    entries: Mapping[str, int] = field(default_factory=dict)
    database: int | None = None
    """Bytes of the history database, None while it does not answer."""
    disk: DiskSpace | None = None
    """The file system of the data folder, None where it cannot be read."""


@dataclass(frozen=True, slots=True)
class EndedReconcile:
    """
    One reconcile that has ended: when it began, its stages in order, and what it reports.

    ``is_partial``: it was one of changed objects only, which reports nothing.
    """

    application: str
    began: datetime
    intervals: tuple[Interval, ...]
    is_partial: bool = False
    phase: str = ""
    revision: str = ""
    error: str = ""


class ReconcileSink(Protocol):
    """Take every reconcile that has ended; called by workers, so it must return at once and raise nothing."""

    def add(self, done: EndedReconcile) -> str:
        """Take a reconcile; return the id of its trace, empty where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceView:
    """
    One object of an application as it was last observed, without secret values.

    ``sync`` is Unknown while its API group is unavailable; ``change`` is its repair, masked, where others changed it,
    and else the step of the plan. ``foreign`` are fields that other managers added and Git does not declare: no drift.
    """

    ref: ObjectRef
    version: str
    sync: SyncStatus
    health: HealthStatus
    change: Change
    problem: str = ""
    foreign: tuple[FieldDifference, ...] = ()
    running: tuple[RunningFinding, ...] = ()
    """What its Pods run otherwise than it declares."""


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """
    One application as it was last observed.

    ``status`` is that of the custom resource, perhaps not written yet; ``application`` is None while its spec is
    invalid. ``plan`` is masked. ``seen`` is when a reconcile succeeded last, not when one was attempted. ``sequence``
    grows with every view that differs from the one before. ``version`` is the resourceVersion of the Application that
    it was made of. ``unobserved`` says which other process works on the Application and why this one could not observe
    it, where that is so: its objects and plan are then those that were observed last, or absent.
    """

    key: str
    application: Application | None
    status: Manifest
    resources: tuple[ResourceView, ...]
    plan: Plan | None
    verdict: Verdict | None
    seen: datetime
    sequence: int = 0
    version: str = ""
    unobserved: str = ""


@dataclass(frozen=True, slots=True)
class StateEvent:
    """
    A change, for users and live pages; ``id`` grows by one.

    ``kind`` is one of application, resource, drift, healed, heal-failed, tag-moved, sync, removed; ``ref`` is empty for
    the application itself.
    ``states`` are those it is in now, by their names in the API, and ``message`` is what else is known.
    """

    id: int
    time: datetime
    application: str
    kind: str
    message: str
    ref: str = ""
    states: tuple[str, ...] = ()


class StateReader(Protocol):
    """
    What the engine knows, from memory: reading sends no request to the cluster and triggers no reconcile.

    Called by the dashboard, its live pages and the API for every view.
    """

    def applications(self) -> tuple[ApplicationView, ...]:
        """Return every application, sorted by key."""
        ...

    def application(self, key: str) -> ApplicationView | None:
        """Return one application by ``namespace/name``."""
        ...

    def events(self, after: int = 0, *, limit: int = 500) -> tuple[StateEvent, ...]:
        """Return the kept events with ids above ``after``, oldest first; only the latest are kept."""
        ...

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until there is an event with an id above ``after``; return whether there is."""
        ...

    @property
    def bounds(self) -> tuple[int, int]:
        """The ids of the oldest kept and the newest event; (0, 0) when there is none."""
        ...

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        """Return a live object of an application (or a part of one, such as a Pod), masked; None when unknown."""
        ...

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that this one owns, masked."""
        ...

    def cost(self, key: str) -> Cost:
        """Return what the reconciles of an application cost since the start of this process."""
        ...

    def api_requests(self) -> int:
        """Return how many requests to the API server were made for all applications since the start."""
        ...

    def sizes(self) -> Sizes:
        """Return how much this process keeps in memory."""
        ...

    def drift_totals(self) -> DriftTotals:
        """Return what others changed, and how it was restored, since the start of this process."""
        ...

    def restarts(self) -> Mapping[str, int]:
        """Return the restarts of the containers of all Pods that are watched, by why each container ended last."""
        ...

    def stage_durations(self) -> Mapping[str, Distribution]:
        """Return how long each stage of the reconciles took, with the time in the queue."""
        ...

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        ...

    def held_owners(self) -> tuple[Manifest, ...]:
        """Return the Agents and MultiAgentSystems whose own plan waits, such as those that were changed by hand."""
        ...


class SyncRequests(Protocol):
    """
    What users may request of the engine; a controller carries it out later.

    Called by the dashboard, the API and webhooks.
    """

    def request_sync(self, key: str, by: str) -> bool:
        """
        Request a poll of Git and a sync now, in the name of a user; False for an unknown application.

        It also syncs where automation is off, and in windows that allow manual syncs.
        """
        ...

    def request_chosen(self, key: str, choice: Choice) -> str:
        """
        Request a sync of some objects, which stays requested over a restart until it has ended.

        Return the id that the status repeats then, empty for an unknown application.
        """
        ...

    def request_repair(self, key: str, refs: frozenset[ObjectRef], by: str) -> bool:
        """
        Request that objects are restored to what was applied last, in the name of a user; False for an unknown one.

        Nothing else is written: no other object, and no commit.
        """
        ...

    def repository_changed(self, is_it: Callable[[str], bool], push: Push | None = None) -> int:
        """
        Request a poll of the repositories with these URLs, after a push; return how many Applications have one.

        A ``push`` whose files no Application reads is left to the next poll.
        """
        ...

    def pod_entered(self, pod: ObjectRef, execution: Execution) -> tuple[tuple[str, ObjectRef], ...]:
        """
        Note that a user ran something in a Pod, and reconcile the Applications of which it is a part.

        Return each with the object that it declares, empty for what was noted before and for other Pods.
        """
        ...

    def observe(self, key: str) -> None:
        """
        Observe an Application of another process here for some minutes, as replicas observe all of them.

        Called where a user asks for its objects or its plan.
        """
        ...

    def poll_now(self, keys: Iterable[str]) -> None:
        # one field, so that a user who may suspend cannot change anything else by it
        """Request a reconcile of these Applications now, with a poll of Git."""
        ...

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` of an Application and nothing else; False for an unknown one."""
        ...

    def write_hold(self, key: str, name: str, text: str) -> bool:
        """Set the annotation of a hold, or remove it where the text is empty; False for an unknown Application."""
        ...

    def wake_owner(self, manifest: Manifest, digest: str) -> None:
        """Let an Agent or system be reconciled, whose plan of this digest a user reviewed."""
        ...

    def queue_length(self) -> int:
        """Return how many applications wait for a worker."""
        ...


class ApplicationSets(Protocol):
    """
    The ApplicationSets as they were last seen, from memory.

    Called by the dashboard for every view, and by webhooks.
    """

    def sets(self) -> tuple[Manifest, ...]:
        """Return all sets with their status."""
        ...

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Poll the repositories with these URLs that generators read, now; return how many sets read one."""
        ...


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """
    What a process measured since its start: its metrics as a text of Prometheus, and the costs of Applications.

    ``name`` is its number; one that does not answer has neither, and ``is_up`` is False.
    """

    name: str
    metrics: str = ""
    costs: Mapping[str, Cost] = field(default_factory=dict)
    is_up: bool = True


OtherProcesses = Callable[[], tuple[ProcessReport, ...]]
"""Return what the other processes report now, in at most some seconds; called for each page of metrics and costs."""


def no_others() -> tuple[ProcessReport, ...]:
    """Return nothing: this process is the only one."""
    return ()
