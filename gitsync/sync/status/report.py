"""The report of a running reconcile: the results of its stages so far, from which the status is built."""

from __future__ import annotations

import hashlib
import logging
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from gitsync.errors import (
    ClusterUnavailable,
    GitsyncError,
    RecordUnavailable,
    SourceUnavailable,
    TransientError,
    UnexpectedError,
    detached,
)
from gitsync.objects.application import Application
from gitsync.objects.change import Plan, Verdict
from gitsync.objects.conditions import CLUSTER_UNAVAILABLE, SOURCE_READY, Condition, find_condition
from gitsync.objects.health import Health
from gitsync.objects.manifest import Manifest
from gitsync.objects.phase import Phase, SyncStatus
from gitsync.objects.record import Commit, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.running import FindingKey
from gitsync.ports import EndedReconcile
from gitsync.runtime.work_costs import StageTimer
from gitsync.sync.input import ReconcileInput, SyncState
from gitsync.sync.observe import Observation
from gitsync.sync.planner import Planned
from gitsync.sync.status.outcome import PhaseOutcome

_OUTDATED_INTERVALS = 3
"""After this many intervals without an answer of the Git server, what it has is Unknown."""


class FailureReason(Enum):
    """The stages of a reconcile; the value is the reason in a condition when the stage fails."""

    READ = "InvalidSpec"
    SOURCE = "SourceFailed"
    RENDER = "RenderFailed"
    OBSERVE = CLUSTER_UNAVAILABLE
    PLAN = "PlanRefused"
    APPLY = "ApplyFailed"


def _label(stage: FailureReason) -> str:
    """Return the name of a stage in metrics, the API and traces."""
    return stage.name.lower()


@dataclass(slots=True)
class Report:
    """
    The results of one reconcile so far. Only the pipeline and the reconciler write it; stages return their results.

    It exists because a failed stage must not lose what earlier stages found: the status reports both. ``inputs`` and
    ``manifest`` are the input and the Application as they are now; ``commit`` is the newest one that affects the
    Application, and ``newest`` the id of the one that Git has.
    """

    manifest: Manifest
    inputs: ReconcileInput
    timer: StageTimer = field(default_factory=lambda: StageTimer(_label(FailureReason.READ)))
    _stage: FailureReason = field(default=FailureReason.READ, init=False)
    commit: Commit | None = None
    newest: str = ""
    source_error: GitsyncError | None = None
    rendered: tuple[int, tuple[str, ...]] | None = None
    """The number of rendered objects, and warnings."""
    remotes: tuple[tuple[str, str], ...] | None = None
    """References to other repositories, and the commits that they named."""
    observation: Observation | None = None
    planned: Planned | None = None
    verdict: Verdict | None = None
    drift: tuple[tuple[ObjectRef, str], ...] = ()
    detected: Mapping[FindingKey, datetime] = field(default_factory=dict)
    """When each Pod that runs otherwise than declared was detected."""
    healed: int = 0
    contents: list[dict[str, str]] | None = None
    """Since when the Secrets and ConfigMaps that workloads read have their content; None where it was not observed."""
    outcome: PhaseOutcome = field(default_factory=PhaseOutcome)
    metric_condition: Condition | None = None
    record: SyncRecord | None = None
    error: GitsyncError | None = None
    requeue_after: float | None = None
    poll_after: float | None = None
    """Seconds until the Application has to poll Git itself."""
    peers: tuple[str, ...] = ()
    """The Applications that have to poll Git now."""
    last_observed: datetime | None = None
    """When a reconcile was conclusive last, None where this process knows of none."""

    @classmethod
    def start(cls, manifest: Manifest, now: datetime) -> Report:
        """Return an empty report; the spec of the Application is not parsed yet."""
        return cls(manifest, ReconcileInput.unparsed(manifest, now))

    @property
    def stage(self) -> FailureReason:
        """The stage that runs, or in which the reconcile ended."""
        return self._stage

    @stage.setter
    def stage(self, stage: FailureReason) -> None:
        self._stage = stage
        self.timer.enter(_label(stage))

    @property
    def app(self) -> Application:
        """The Application."""
        return self.inputs.app

    @property
    def now(self) -> datetime:
        """The time at the start."""
        return self.inputs.now

    @property
    def state(self) -> SyncState:
        """What the status keeps, as it is now."""
        return self.inputs.state

    @state.setter
    def state(self, state: SyncState) -> None:
        self.inputs = replace(self.inputs, state=state)

    @property
    def plan(self) -> Plan | None:
        """The last plan."""
        return self.planned.plan if self.planned is not None else None

    @property
    def previous_status(self) -> dict[str, Any]:
        """The status that the Application has now."""
        status = self.manifest.get("status")
        return status if isinstance(status, dict) else {}

    @property
    def render_error(self) -> GitsyncError | None:
        """The error that ended this reconcile, where it is one of rendering."""
        is_other = isinstance(self.error, ClusterUnavailable)  # such as the Secret with the keys that decrypt
        return self.error if self.stage is FailureReason.RENDER and not is_other else None

    @property
    def is_source_outdated(self) -> bool:
        """Whether the Git server has not answered for several intervals, so that Git may have another commit."""
        condition = find_condition(self.previous_status, SOURCE_READY)
        if not isinstance(self.source_error, SourceUnavailable) or condition.get("status") != "False":
            return False
        # the condition survives a restart, the time of the last poll does not
        since = datetime.fromisoformat(str(condition["lastTransitionTime"]))
        return self.now - since >= timedelta(seconds=_OUTDATED_INTERVALS * self.app.sync.interval)

    @property
    def is_conclusive(self) -> bool:
        """Whether this reconcile has found out how the cluster and Git differ, or why that needs another input."""
        return self.observation is not None or not isinstance(self.error, TransientError)

    def requeue_in(self, seconds: float | None) -> None:
        """Reconcile again in this many seconds, or earlier; None leaves the schedule unchanged."""
        if seconds is not None:
            self.requeue_after = seconds if self.requeue_after is None else min(self.requeue_after, seconds)

    def ended(self) -> EndedReconcile:
        """Return what this reconcile took, and what it reports."""
        phase = self.outcome.phase.value
        revision = self.commit.id if self.commit is not None else ""
        error = str(self.error) if self.error is not None else ""
        intervals = self.timer.intervals()
        return EndedReconcile(self.app.key, self.now, intervals, phase=phase, revision=revision, error=error)

    def fail(self, error: GitsyncError) -> None:
        """Record the error that ended this reconcile."""
        # without its traceback, which refers to all that the reconcile had in memory
        self.error = detached(error)
        is_unexpected = isinstance(error, UnexpectedError)
        is_observing = isinstance(error, TransientError) and not is_unexpected and self.stage is FailureReason.OBSERVE
        # the cluster does not answer: nothing is known, which is not a failure of the Application
        phase = Phase.OBSERVING if is_observing or isinstance(error, ClusterUnavailable) else Phase.FAILED
        self.outcome = replace(self.outcome, phase=phase, reason=_reason(error, self.stage), message=str(error))

    @property
    def sync(self) -> SyncStatus:
        """
        Synced, OutOfSync (also while Git's newest commit cannot be used), or Unknown.

        It is Unknown without a plan, and while all that differs may be an object that is unobserved.
        """
        # it was not compared with Git this time, and the last result is better than none
        if self.outcome.phase is Phase.SUSPENDED and self.plan is None:
            return SyncStatus(self.previous_status.get("sync", SyncStatus.UNKNOWN))
        if self.plan is None:
            return SyncStatus.OUT_OF_SYNC if self.render_error is not None else SyncStatus.UNKNOWN
        rollback = self.state.rollback
        is_behind = self.error is not None or (rollback is not None and bool(rollback.to_commit))
        if self.plan.outstanding or is_behind:
            return SyncStatus.OUT_OF_SYNC
        is_unknown = self.is_source_outdated or bool(self.plan.unobserved)
        return SyncStatus.UNKNOWN if is_unknown else SyncStatus.SYNCED

    @property
    def health(self) -> Health:
        """The worst health of the declared objects; the previous one while nothing can be observed on purpose."""
        if self.observation is not None:
            return self.observation.overall_health
        is_kept = self.outcome.phase is Phase.SUSPENDED or self.render_error is not None
        return Health(self.previous_status.get("health", "Unknown")) if is_kept else Health.UNKNOWN


def _reason(error: GitsyncError, stage: FailureReason) -> str:
    """Return the reason of a condition: the system that failed, whichever stage needed it, and else the stage."""
    if isinstance(error, UnexpectedError):
        return "UnexpectedError"
    if isinstance(error, RecordUnavailable):
        return "DatabaseUnavailable"
    # such as the Secret with the credentials for Git, which is read from the cluster
    return FailureReason.OBSERVE.value if isinstance(error, ClusterUnavailable) else stage.value


_log = logging.getLogger(__name__)


def unexpected_error(fault: Exception, key: str) -> UnexpectedError:
    """Return the error to report for a defect in a reconcile of an Application, and log its traceback with its id."""
    # without line numbers: a defect keeps its id when other code of the file changes
    frames = [(frame.filename.rpartition("/")[2], frame.name) for frame in traceback.extract_tb(fault.__traceback__)]
    kind = type(fault).__name__
    error = UnexpectedError(kind, hashlib.sha256(repr((kind, frames)).encode()).hexdigest()[:8])
    _log.error("defect %s", error.id, exc_info=fault, extra={"application": key})
    return error
