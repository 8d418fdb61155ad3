"""Job: what executing a plan needs to know, and Round: what came of one go at it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsync.errors import GitsyncError
from gitsync.objects.application import Application
from gitsync.objects.change import Change, Plan
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import Held, Inventory
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef


@dataclass(frozen=True, slots=True)
class Job:
    """
    One sync of one application.

    ``hold`` takes refs into the inventory and returns once that is stored; ``health`` tells how a live object is now;
    ``is_superseded`` is asked between batches.
    """

    app: Application
    plan: Plan
    commit: Commit
    sync: str
    versions: Mapping[ObjectRef, str]
    hold: Callable[[Mapping[ObjectRef, Held]], None]
    health: Callable[[ObjectRef, Manifest], HealthStatus]
    is_superseded: Callable[[], bool] = lambda: False
    approver: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """How one step ended; ``live`` is the object after an apply, ``error`` what went wrong."""

    change: Change
    outcome: Outcome
    message: str = ""
    live: Manifest | None = None
    error: GitsyncError | None = None
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Round:
    """
    What one go at a plan did.

    ``waiting`` says in words what the next batch waits for: a watch event, not a thread, takes the plan up again.
    """

    results: tuple[Result, ...] = ()
    waiting: str = ""
    superseded: bool = False

    @property
    def inventory_after(self) -> Callable[[Inventory], Inventory]:
        """Return how the inventory changes: applied objects have their uid."""
        entries = {
            result.change.ref: result.live
            for result in self.results
            if result.live is not None and result.error is None
        }
        return lambda inventory: inventory.widened(
            {ref: Held(_version(live), str(live["metadata"].get("uid", ""))) for ref, live in entries.items()}
        )


def _version(manifest: Manifest) -> str:
    return str(manifest.get("apiVersion") or "").rpartition("/")[2]
