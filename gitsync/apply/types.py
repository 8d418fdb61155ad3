"""Job: what executing a plan needs to know, and Round: what came of one go at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsync.errors import ClusterUnavailable, GitsyncError
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Plan
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """
    One sync of one application.

    ``hold`` takes refs into the inventory and returns once that is stored; ``health`` tells how a live object is now.
    """

    app: Application
    plan: Plan
    commit: Commit
    sync: str
    versions: Mapping[ObjectRef, str]
    widen_inventory: Callable[[Mapping[ObjectRef, InventoryEntry]], None]
    health: Callable[[ObjectRef, Manifest], HealthStatus]
    approver: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step ended; ``live`` is the object after the write, ``error`` what went wrong."""

    change: Change
    outcome: Outcome
    message: str = ""
    live: Manifest | None = None
    error: GitsyncError | None = None
    duration_ms: int = 0

    @property
    def is_unknown(self) -> bool:
        """Whether the write may have taken effect although it counts as failed: its answer never came."""
        return isinstance(self.error, ClusterUnavailable)


@dataclass(frozen=True, slots=True)
class ApplyProgress:
    """
    What one go at a plan did.

    ``waiting`` says in words what the next batch waits for: a watch event, not a thread, takes the plan up again.
    """

    results: tuple[StepResult, ...] = ()
    waiting: str = ""
