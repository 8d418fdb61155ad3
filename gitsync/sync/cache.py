"""Memory: what the controller remembers of one application between two looks; losing it costs only work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gitsync.apply.hooks import HookRuns
from gitsync.apply.types import StepResult
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.merge.schema import Schemas
from gitsync.objects.application import Application, GitSource
from gitsync.objects.change import Plan
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Step
from gitsync.objects.ref import ObjectRef
from gitsync.plan.normalize import PreparedObject
from gitsync.ports import Credentials, Snapshot
from gitsync.render.build import Build


@dataclass(slots=True)
class Operation:
    """One sync under way; it may take several looks, since waiting for health holds no worker."""

    id: str
    commit: Commit
    trigger: str
    initiator: str
    started: datetime
    began: float
    plan: Plan
    begun_with: Plan
    approver: str = ""
    approved: Plan | None = None
    steps: dict[ObjectRef, Step] = field(default_factory=dict)
    hooks: HookRuns = field(default_factory=dict)
    waiting: str = ""


@dataclass(slots=True)
class RetryState:
    """Failures of one input in a row: why the last one, and when, by the monotonic clock, the next try is due."""

    input: tuple[str, int, str]
    failures: int = 0
    retry_at: float = 0.0
    message: str = ""


@dataclass(slots=True)
class RenderResult:
    """
    What a commit renders to, and what that declares for this application.

    ``is_complete`` is False while a kind is not known to the cluster, so that its scope may change.
    """

    build: Build
    app: Application | None = None
    declared: Mapping[ObjectRef, Manifest] | None = None
    is_complete: bool = False
    decryption_keys: tuple[str, ...] = ()
    """The keys by which what is encrypted was opened."""


@dataclass(slots=True)
class ReconcileCache:
    """What is remembered of one application; one worker at a time holds it."""

    source: GitSource | None = None
    next_poll: float = float("-inf")
    poll_error: GitsyncError | None = None
    commit: str = ""
    polled_request: str = ""
    notified_at: float | None = None
    """When somebody said that Git has changed, by the monotonic clock; None once that was looked into."""
    last_poll: float = float("-inf")
    """When Git was asked last, by the monotonic clock."""
    credentials: Credentials = field(default_factory=Credentials)
    """By which Git was asked last."""
    fetched: Commit | None = None
    trusted: Mapping[str, str] | None = None
    """The keys by which the fetched commit was verified; None where no signature is asked for."""
    fast_forward: tuple[str, str, bool] = ("", "", True)
    """From which commit to which the revision moved, and whether forward."""
    snapshot: Snapshot | None = None
    rendered_of: tuple[str, str, str] = ("", "", "")
    rendered: dict[str, RenderResult] = field(default_factory=dict)
    prepared: dict[int, PreparedObject] = field(default_factory=dict)
    """What the last declared manifests were made to, for the application as it was then."""
    prepared_for: Application | None = None
    render_error: tuple[str, InvalidInput] | None = None
    validated: Mapping[ObjectRef, Manifest] | None = None
    validated_by: Schemas | None = None
    policy_checked: tuple[Mapping[ObjectRef, Manifest], Application] | None = None
    """What was judged by policy, for the application as it was then."""
    violations: tuple[str, ...] = ()
    """What policy said against it."""
    plan: Plan | None = None
    dry_runs: dict[ObjectRef, tuple[Manifest, str, Manifest | GitsyncError, datetime]] = field(default_factory=dict)
    """What was asked about which desired object at which live version, the answer, and when it came."""
    operation: Operation | None = None
    retry: RetryState = field(default_factory=lambda: RetryState(("", 0, "")))
    failed: dict[ObjectRef, StepResult] = field(default_factory=dict)
    self_heals: deque[float] = field(default_factory=lambda: deque(maxlen=6))
    requested_by: str = ""
    """The person who asks for a sync; empty once it was carried out."""
    hook_cleanup_due: float = float("-inf")
    """When hooks that are left over are deleted again, by the monotonic clock."""
    is_operation_restored: bool = False
    """Whether it was looked, after the start, for an operation that a crash interrupted."""
    has_unresolved_writes: bool = True
    """The audit may hold writes without an outcome: after a start, and after answers that never came."""
