"""Input and output of one apply pass."""

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
    One sync of one Application.

    ``widen_inventory`` adds refs to the inventory and returns once it is stored; ``health`` returns the health of a
    live object. ``on_result`` is called with each result before its outcome is audited, which may fail.
    ``creates_only``: a CREATE fails, and changes nothing, where an object of its name exists already.
    """

    app: Application
    plan: Plan
    commit: Commit
    sync: str
    versions: Mapping[ObjectRef, str]
    widen_inventory: Callable[[Mapping[ObjectRef, InventoryEntry]], None]
    health: Callable[[ObjectRef, Manifest], HealthStatus]
    approver: str = ""
    creates_only: bool = False
    on_result: Callable[[StepResult], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class StepResult:
    """
    The result of one step; ``live`` is the object after the write, ``error`` why it failed.

    ``is_blocked`` is set where it was not tried, since a step failed that it depends on.
    """

    change: Change
    outcome: Outcome
    message: str = ""
    live: Manifest | None = None
    error: GitsyncError | None = None
    duration_ms: int = 0
    is_blocked: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether a failed write may have taken effect: its response was lost."""
        return isinstance(self.error, ClusterUnavailable)


@dataclass(frozen=True, slots=True)
class ApplyProgress:
    """
    The results of one apply pass.

    ``waiting`` is what the next batch waits for; a watch event, not a thread, resumes the plan. ``peers`` are
    the other Applications that a prune waits for.
    """

    results: tuple[StepResult, ...] = ()
    waiting: str = ""
    peers: tuple[str, ...] = ()
