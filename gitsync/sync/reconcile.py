"""Turn: one look at one application, filled in stage by stage, and what its status says in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from gitsync.errors import GitsyncError, TransientError
from gitsync.objects.application import Application, Destination, GitSource
from gitsync.objects.change import Plan, Verdict
from gitsync.objects.conditions import Condition
from gitsync.objects.health import Health, HealthStatus, worst
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.record import Commit, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.sync.analysis.run import AnalysisRun
from gitsync.sync.observe import Observation


class FailureReason(Enum):
    """The stages of a turn; the value is the reason in a condition when the stage fails."""

    READ = "InvalidSpec"
    SOURCE = "SourceFailed"
    RENDER = "RenderFailed"
    OBSERVE = "ClusterUnavailable"
    PLAN = "PlanRefused"
    APPLY = "ApplyFailed"


@dataclass(frozen=True, slots=True)
class Rollback:
    """An older commit kept instead of one that is no good; without one, everything is left as it is."""

    to_commit: str
    bad_commit: str
    reason: str

    @property
    def message(self) -> str:
        """What happened, in words."""
        done = f"rolled back to {self.to_commit[:12]}" if self.to_commit else "held"
        return f"{self.reason}: {done} until there is a newer commit than {self.bad_commit[:12]}"


@dataclass(slots=True)
class Reconcile:
    """
    What one look saw, decided and did. Times stand in the status only where something changed.

    ``commit`` is the one that Git has; ``goal`` the one converged to, which is an older one while that is unusable.
    ``problems`` are per object, in words; ``drift_objects`` counts what differs though Git did not change.
    """

    manifest: Manifest
    now: datetime
    app: Application
    stage: FailureReason = FailureReason.READ
    commit: Commit | None = None
    target_commit: Commit | None = None
    source_error: GitsyncError | None = None
    render_error: GitsyncError | None = None
    rendered_count: int | None = None
    warnings: tuple[str, ...] = ()
    observation: Observation | None = None
    plan: Plan | None = None
    verdict: Verdict | None = None
    health: Mapping[ObjectRef, HealthStatus] = field(default_factory=dict)
    inventory: Inventory = field(default_factory=Inventory)
    problems: dict[ObjectRef, str] = field(default_factory=dict)
    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    applied: str = ""
    applied_spec_hash: str = ""
    last_good: str = ""
    operation: Mapping[str, Any] = field(default_factory=dict)
    pin: Rollback | None = None
    analysis: AnalysisRun | None = None
    metric_condition: Condition | None = None
    requested: str = ""
    requested_by: str = ""
    detected_drift: tuple[tuple[ObjectRef, str], ...] = ()
    drift_objects: int = 0
    healed: int = 0
    record: SyncRecord | None = None
    error: GitsyncError | None = None
    requeue_after: float | None = None
    is_deleted: bool = False

    @classmethod
    def start(cls, manifest: Manifest, now: datetime) -> Reconcile:
        """Begin a look at an application; its spec is not read yet."""
        meta = metadata_of(manifest)
        return cls(
            manifest=manifest,
            now=now,
            app=Application(
                name=str(meta.get("name", "")),
                namespace=str(meta.get("namespace", "")),
                uid=str(meta.get("uid", "")),
                generation=int(meta.get("generation") or 0),
                source=GitSource.model_construct(repo_url=""),
                destination=Destination(),
            ),
            inventory=Inventory.from_status(at(manifest, "status", default={})),
            applied=str(at(manifest, "status", "revision", "applied", default="")),
            applied_spec_hash=str(at(manifest, "status", "revision", "appliedFor", default="")),
            last_good=str(at(manifest, "status", "revision", "good", default="")),
            operation=at(manifest, "status", "operation", default={}),
            pin=_pin(at(manifest, "status", "pinned")),
            analysis=AnalysisRun.from_status(at(manifest, "status", "postSync")),
            requested=str(at(manifest, "status", "requestedSync", default="")),
        )

    @property
    def is_requested(self) -> bool:
        """Whether a person asks for a sync that was not carried out yet."""
        return bool(self.requested_by) or (bool(self.app.requested_sync) and self.app.requested_sync != self.requested)

    @property
    def input(self) -> tuple[str, int, str]:
        """What a failure belongs to: another commit, another spec or another request starts afresh."""
        request = f"{self.app.requested_sync} {self.requested_by}"
        return (self.commit.id if self.commit else "", self.app.generation, request)

    @property
    def is_applied(self) -> bool:
        """Whether the plan's revision was applied completely before, for this source and destination."""
        assert self.plan is not None
        return self.plan.revision == self.applied_before

    @property
    def applied_before(self) -> str:
        """The commit that was applied completely for this very source and destination; empty when none was."""
        return self.applied if self.applied_spec_hash in ("", self.app.target_hash) else ""

    def mark_applied(self, commit: str) -> None:
        """Take a commit as applied completely."""
        self.applied, self.applied_spec_hash = commit, self.app.target_hash

    def acknowledge_request(self) -> None:
        """Take the requested sync as carried out."""
        self.requested, self.requested_by = self.app.requested_sync, ""

    @property
    def status_before(self) -> dict[str, Any]:
        """The status as the application has it now."""
        status = self.manifest.get("status")
        return status if isinstance(status, dict) else {}

    def requeue_in(self, seconds: float) -> None:
        """Ask for another look in so many seconds, or earlier."""
        self.requeue_after = seconds if self.requeue_after is None else min(self.requeue_after, seconds)

    def set_error(self, error: GitsyncError) -> None:
        """Take note of what stopped the look."""
        self.error = error
        is_passing = isinstance(error, TransientError) and self.stage is FailureReason.OBSERVE
        self.phase = "Observing" if is_passing else "Failed"
        self.reason, self.message = self.stage.value, str(error)
        if self.stage is FailureReason.RENDER:
            self.render_error = error

    def hold_on(self, pin: Rollback) -> None:
        """Say that something else than Git's newest commit is kept up on purpose."""
        self.phase, self.message = "Failed", pin.message
        self.reason = "RolledBack" if pin.to_commit else "Held"

    def suspend(self) -> None:
        """Do nothing, on request."""
        self.phase, self.message = "Suspended", "spec.suspend is true"

    @property
    def sync(self) -> str:
        """Synced, OutOfSync (also while Git's newest commit cannot be used), or Unknown when nobody can tell."""
        if self.phase == "Suspended":
            return str(self.status_before.get("sync", "Unknown"))
        if self.plan is None:
            return "OutOfSync" if self.render_error is not None else "Unknown"
        is_behind = self.error is not None or (self.pin is not None and bool(self.pin.to_commit))
        return "OutOfSync" if self.plan.writes or is_behind else "Synced"

    @property
    def overall_health(self) -> Health:
        """The worst health of the declared objects; Unknown before anything was observed."""
        if self.observation is None:
            return Health(self.status_before.get("health", "Unknown")) if self._keeps_health else Health.UNKNOWN
        known = [status.health for status in self.health.values() if status.health is not Health.UNKNOWN]
        return worst(known)

    @property
    def _keeps_health(self) -> bool:
        return self.phase == "Suspended" or self.render_error is not None

    def least_healthy(self) -> str:
        """Return the least healthy object, with its reason; empty when none is known."""
        known = {ref: status for ref, status in self.health.items() if status.health is not Health.UNKNOWN}
        if not known:
            return ""
        ref = max(known, key=lambda ref: known[ref].health.badness)
        return f"{ref}: {known[ref].message}"


def _pin(pinned: Any) -> Rollback | None:
    if not isinstance(pinned, dict):
        return None
    return Rollback(*(str(pinned.get(name, "")) for name in ("commit", "instead", "reason")))
