"""The per-Application cache kept between reconciles; losing it only costs recomputation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from gitsync.agents.model.system import spec_digest
from gitsync.apply.change import StepResult
from gitsync.apply.hooks import HookRuns
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.gate.self_heal import SelfHeals
from gitsync.merge.schema import Schema, Schemas
from gitsync.objects.application import Application, GitSource
from gitsync.objects.change import Plan
from gitsync.objects.holds import FieldHold
from gitsync.objects.manifest import Manifest
from gitsync.objects.options import Options
from gitsync.objects.record import Commit, Step
from gitsync.objects.ref import ObjectRef
from gitsync.objects.signers import Trust
from gitsync.plan.applied import AppliedStates
from gitsync.plan.drift_history import OpenDrift, OpenFinding
from gitsync.plan.normalize import PreparedObject
from gitsync.plan.running import FindingKey
from gitsync.plan.undeclared import REPORT, Undeclared
from gitsync.ports import Credentials, Snapshot
from gitsync.render.build import Build
from gitsync.secrets import DecryptionKeys
from gitsync.sync.additions import KnownAdditions
from gitsync.sync.input import RepairRequest
from gitsync.sync.observed_objects import ObservedObjects
from gitsync.sync.running import RunningState


@dataclass(slots=True)
class Operation:
    """A running sync; it may take several reconciles, since waiting for health holds no worker."""

    id: str
    commit: Commit
    trigger: str
    initiator: str
    started: datetime
    began: float  # monotonic: a change of the clock must neither end nor prolong the operation
    plan: Plan
    begun_with: Plan  # the plan of its start; ``plan`` loses each step that is done
    approver: str = ""
    approved: Plan | None = None  # later plans have to be parts of it
    part: tuple[str, ...] = ()
    """The paths of the objects that it is limited to, empty for the whole plan."""
    has_hooks: bool = True
    """Whether hooks run with it: not where a user chose its objects."""
    steps: dict[ObjectRef, Step] = field(default_factory=dict)
    hooks: HookRuns = field(default_factory=dict)
    waiting: str = ""
    ending: str | None = None
    """Why it failed, empty for a success, None while it runs; one that has ended only lacks its record."""
    conflicts: int = 0
    """How many runs met an object that had changed since it was planned."""


@dataclass(slots=True)
class RetryState:
    """Consecutive failures of one input: the last message, and the monotonic time of the next retry."""

    input: tuple[str, int, str] = ("", 0, "")  # the ``retry_key`` of the plan: fetched commit, generation and requests
    failures: int = 0
    retry_at: float = 0.0
    message: str = ""
    is_repeated: bool = False
    """Whether the last attempt failed with the same message as the one before."""


@dataclass(slots=True)
class RenderResult:
    """
    What a commit renders to, and the objects that it declares for this Application.

    ``is_complete`` is False while the cluster does not know a kind, so that its scope may change. ``decryption_keys``
    are the keys by which encrypted Secrets were decrypted.
    """

    build: Build
    is_encrypted: bool = False
    """Whether a manifest is encrypted."""
    app: Application | None = None
    declared: Mapping[ObjectRef, Manifest] | None = None
    options: Mapping[ObjectRef, Options] = field(default_factory=dict)
    is_complete: bool = False
    decryption_keys: DecryptionKeys = field(default_factory=DecryptionKeys)


class GitAnswer(NamedTuple):
    """What a Git server answered for a revision: its commit, or why there is none."""

    url: str
    revision: str
    result: str | GitsyncError

    def is_of(self, source: GitSource) -> bool:
        """Whether it is one for the revision of a source; an Application may name another since the query."""
        return (self.url, self.revision) == (source.repo_url, source.revision)


@dataclass(slots=True)
class GitCache:
    """The commit that the Application follows, and how and when it was fetched. Times are monotonic."""

    source: GitSource | None = None
    # at once: the first reconcile after a start has no answer
    next_poll: float = float("-inf")
    not_before: float = float("-inf")
    """Until when the Git host asked for no further request (``Retry-After``), by the monotonic clock."""
    last_poll: float = float("-inf")
    poll_error: GitsyncError | None = None
    """Why the last poll, or the fetch of its commit, failed."""
    is_unfetched: bool = False
    """Whether the fetch of the last polled commit failed."""
    commit: str = ""
    polled_request: str = ""
    notified_at: float | None = None
    """Time of the last unprocessed push notification, or None."""
    answer: GitAnswer | None = None
    """The answer of the Git server to the query of the last reconcile, not processed yet."""
    max_age: float = 0.0
    """Seconds that an answer or failure of the Git server may be old to be used by the last poll and its fetch."""
    retry_delay: float = 0.0
    """Seconds between the last failed poll and its retry; 0 where it succeeded."""
    credentials: Credentials = field(default_factory=Credentials)
    """The credentials of the last poll."""
    fetched: Commit | None = None
    trusted: tuple[Trust, ...] = ()
    """The signers by whose keys the fetched commit was verified, of each source; none where none is required."""
    last_change: Commit | None = None
    """The newest commit that changed what the Application reads."""
    is_report_due: bool = False
    """Whether the status has to report the newest commit, although it may not affect the Application."""
    fast_forward: tuple[str, str, bool] = ("", "", True)
    """The last move of the revision: from which commit, to which one, and whether it was a fast-forward."""
    snapshot: Snapshot | None = None


@dataclass(slots=True)
class RenderCache:
    """The last rendered commits of one source, and the objects prepared from them."""

    source: tuple[object, ...] = ()  # what of the source a build, or its error, depends on besides the commit
    commits: dict[str, RenderResult] = field(default_factory=dict)
    # by identity: hashing a manifest costs more than it saves
    prepared: dict[int, PreparedObject] = field(default_factory=dict)
    """The objects made of the last manifests, by manifest identity, for ``prepared_for``."""
    prepared_for: Application | None = None
    error: tuple[str, object, InvalidInput] | None = None
    """The commit that could not be rendered, the conditions (``RenderConditions``) at that time, and why."""


@dataclass(slots=True)
class PlanCache:
    """The last plan, and dry-run results by object, valid for one desired object and one live resourceVersion."""

    plan: Plan | None = None
    dry_runs: dict[ObjectRef, tuple[Manifest, str, Manifest | GitsyncError, datetime]] = field(default_factory=dict)
    repair_dry_runs: dict[ObjectRef, tuple[Manifest, str, Manifest | GitsyncError, datetime]] = field(
        default_factory=dict
    )
    """Those of states that were applied last, where Git declares another one."""
    applied: AppliedStates = field(default_factory=lambda: AppliedStates(spec_digest))
    refused: dict[ObjectRef, str] = field(default_factory=dict)
    """The resourceVersions at which the API server rejected an apply of an object as invalid."""
    rejections: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Why objects were rejected at the last attempt."""
    undeclared: Undeclared = REPORT
    """What the plan was made for."""
    holds: tuple[FieldHold, ...] = ()
    """The holds that the plan was made beside."""
    additions: KnownAdditions = field(default_factory=dict)

    def forget_plan(self) -> None:
        """Forget the last plan with what was found for it."""
        self.plan = None
        self.dry_runs = {}
        self.repair_dry_runs = {}
        self.additions = {}


@dataclass(slots=True)
class CheckCache:
    """The objects that were validated and checked last, the latter with the set of policies that they met."""

    validated: Mapping[ObjectRef, Manifest] | None = None
    validated_by: Schemas | None = None
    schemas: Mapping[tuple[str, str], Schema | None] = field(default_factory=dict)
    """Those that they match, by apiVersion and kind."""
    # the last member is the PolicySet, compared by identity: it is replaced as a whole when the operator changes it
    policy_checked: tuple[Mapping[ObjectRef, Manifest], Application, object] | None = None
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedRepair:
    """
    The last failure of the repair of one object, and the monotonic time of the next attempt.

    ``is_outdated``: it failed only because the object changed after the repair was planned, which is not reported.
    """

    result: StepResult
    failures: int
    retry_at: float
    is_outdated: bool = False


@dataclass(slots=True)
class ExecutionCache:
    """The running operation, failures and retries."""

    operation: Operation | None = None
    retry: RetryState = field(default_factory=RetryState)
    failed: dict[ObjectRef, StepResult] = field(default_factory=dict)
    answered: list[StepResult] = field(default_factory=list)
    """The results of writes of the running operation that were answered after their reconcile."""
    self_heals: SelfHeals = field(default_factory=SelfHeals)
    drifted: dict[ObjectRef, OpenDrift] = field(default_factory=dict)
    """The objects that others had changed at the last reconcile."""
    synced: frozenset[ObjectRef] = frozenset()
    """Those of them that a sync has written since."""
    findings: dict[FindingKey, OpenFinding] = field(default_factory=dict)
    """The Pods that ran otherwise than declared at the last reconcile."""
    detections: Mapping[tuple[str, ...], datetime] | None = None
    """When findings were detected before a restart, as the status tells; None until it was read."""
    failed_repairs: dict[ObjectRef, FailedRepair] = field(default_factory=dict)
    slow_repairs: dict[str, Operation] = field(default_factory=dict)
    """The repairs, by the id of their operation, of which a write was not answered within their reconcile."""
    answered_repairs: list[tuple[Operation, StepResult]] = field(default_factory=list)
    """The results of such writes, until the next reconcile has recorded them."""
    completed_hooks: Mapping[str, Any] = field(default_factory=dict)
    """The operation of deletion hooks that succeeded, as in the status, until their finalizer is removed."""
    replaced: dict[ObjectRef, float] = field(default_factory=dict)
    """The monotonic time of the next attempt to replace the Pods of a workload, or a Pod."""
    hook_cleanup_due: float = float("-inf")
    """Monotonic time of the next attempt to delete leftover hooks."""
    unrecorded: tuple[str, ...] = ()
    """The syncs, oldest first, by which an earlier process wrote and whose records it may not have saved."""
    is_operation_restored: bool = False
    """Whether an operation interrupted by a crash has been restored since start-up."""


@dataclass(slots=True)
class ReconcileCache:
    """The cache of one Application; one worker at a time uses it. ``requested_by`` requested a pending sync."""

    requested_by: str = ""
    requested_repair: RepairRequest = field(default_factory=RepairRequest)
    git: GitCache = field(default_factory=GitCache)
    render: RenderCache = field(default_factory=RenderCache)
    objects: ObservedObjects = field(default_factory=ObservedObjects)
    running: RunningState = field(default_factory=RunningState)
    plans: PlanCache = field(default_factory=PlanCache)
    checks: CheckCache = field(default_factory=CheckCache)
    execution: ExecutionCache = field(default_factory=ExecutionCache)
