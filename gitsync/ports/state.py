"""What the engine knows, for dashboard and API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from gitsync.objects.application import Application
from gitsync.objects.change import Change, FieldDifference, Plan, Verdict
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.ref import ObjectRef
from gitsync.ports.costs import Cost, Distribution, Sizes


@dataclass(frozen=True, slots=True)
class ResourceView:
    """
    One object of an application as it was last observed, without secret values.

    ``sync`` is Synced, OutOfSync, Missing, ToPrune, or Unknown while its API group is unavailable; ``change`` is
    the plan's step for it, masked. ``foreign`` are fields that other managers added and Git does not declare: no drift.
    """

    ref: ObjectRef
    version: str
    sync: str
    health: HealthStatus
    change: Change
    problem: str = ""
    foreign: tuple[FieldDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """
    One application as it was last observed.

    ``status`` is that of the custom resource, perhaps not written yet; ``application`` is None while its spec is
    invalid. ``plan`` is masked. ``sequence`` grows with every view that differs from the one before.
    """

    key: str
    application: Application | None
    status: Manifest
    resources: tuple[ResourceView, ...]
    plan: Plan | None
    verdict: Verdict | None
    seen: datetime
    sequence: int = 0


@dataclass(frozen=True, slots=True)
class StateEvent:
    """
    A change, for users and live pages; ``id`` grows by one.

    ``kind`` is one of application, resource, drift, sync, removed; ``ref`` is empty for the application itself.
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

    def stage_durations(self) -> Mapping[str, Distribution]:
        """Return how long each stage of the reconciles took, with the time in the queue."""
        ...

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        ...
