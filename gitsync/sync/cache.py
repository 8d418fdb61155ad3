"""Memory: what the controller remembers of one application between two looks; losing it costs only work."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from gitsync.apply.hooks import Runs
from gitsync.apply.types import Result
from gitsync.errors import GitsyncError, InvalidInput
from gitsync.merge.schema import Schemas
from gitsync.objects.application import Application, GitSource
from gitsync.objects.change import Plan
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import Commit, Step
from gitsync.objects.ref import ObjectRef
from gitsync.plan.normalize import Placed
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
    approver: str = ""
    approved: Plan | None = None
    steps: dict[ObjectRef, Step] = field(default_factory=dict)
    hooks: Runs = field(default_factory=dict)
    waiting: str = ""


@dataclass(slots=True)
class Attempts:
    """Failures of one input in a row: why the last one, and when, by the monotonic clock, the next try is due."""

    of: tuple[str, int, str]
    failures: int = 0
    due: float = 0.0
    message: str = ""


@dataclass(slots=True)
class Rendered:
    """
    What a commit renders to, and what that declares for this application.

    ``is_complete`` is False while a kind is not known to the cluster, so that its scope may change.
    """

    build: Build
    app: Application | None = None
    declared: Mapping[ObjectRef, Manifest] | None = None
    is_complete: bool = False
    opened_by: tuple[str, ...] = ()
    """The keys by which what is encrypted was opened."""


@dataclass(slots=True)
class Memory:
    """What is remembered of one application; one worker at a time holds it."""

    source: GitSource | None = None
    next_poll: float = float("-inf")
    poll_error: GitsyncError | None = None
    commit: str = ""
    polled_for: str = ""
    hinted: float | None = None
    """When somebody said that Git has changed, by the monotonic clock; None once that was looked into."""
    polled: float = float("-inf")
    """When Git was asked last, by the monotonic clock."""
    credentials: Credentials = field(default_factory=Credentials)
    """By which Git was asked last."""
    fetched: Commit | None = None
    trusted: Mapping[str, str] | None = None
    """The keys by which the fetched commit was verified; None where no signature is asked for."""
    moved: tuple[str, str, bool] = ("", "", True)
    """From which commit to which the revision moved, and whether forward."""
    snapshot: Snapshot | None = None
    rendered_of: tuple[str, str, str] = ("", "", "")
    rendered: dict[str, Rendered] = field(default_factory=dict)
    placed: dict[int, Placed] = field(default_factory=dict)
    """What the last declared manifests were made to, for the application as it was then."""
    placed_for: Application | None = None
    refused: tuple[str, InvalidInput] | None = None
    checked: Mapping[ObjectRef, Manifest] | None = None
    checked_by: Schemas | None = None
    judged: tuple[Mapping[ObjectRef, Manifest], Application] | None = None
    """What was judged by policy, for the application as it was then."""
    violations: tuple[str, ...] = ()
    """What policy said against it."""
    plan: Plan | None = None
    dry_runs: dict[ObjectRef, tuple[Manifest, str, Manifest | GitsyncError, datetime]] = field(default_factory=dict)
    """What was asked about which desired object at which live version, the answer, and when it came."""
    operation: Operation | None = None
    attempts: Attempts = field(default_factory=lambda: Attempts(("", 0, "")))
    failed: dict[ObjectRef, Result] = field(default_factory=dict)
    heals: deque[float] = field(default_factory=lambda: deque(maxlen=6))
    requested_by: str = ""
    """The person who asks for a sync; empty once it was carried out."""
    sweep_due: float = float("-inf")
    """When hooks that are left over are deleted again, by the monotonic clock."""
    is_resumed: bool = False
    """Whether it was looked, after the start, for an operation that a crash interrupted."""
    has_open_intents: bool = True
    """The audit may hold writes without an outcome: after a start, and after answers that never came."""
