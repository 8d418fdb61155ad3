"""A static fake engine: given views, real records, and recorded requests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gitsync.agents.budget import Prices
from gitsync.apply.change import StepResult
from gitsync.edit.adopt import ClusterValue
from gitsync.errors import GitsyncError, WrongState
from gitsync.gate.approvals import may_view
from gitsync.gate.explain import PolicySummary, Setting, explain, summaries
from gitsync.gate.policy import Policy
from gitsync.gate.policy_files import PolicySet, policy_named
from gitsync.objects.application import Application, parse_application
from gitsync.objects.change import (
    Action,
    Change,
    Decision,
    Difference,
    FieldDifference,
    FieldOwner,
    HoldReason,
    Plan,
    Risk,
    Verdict,
)
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.record import Commit, Outcome, Push
from gitsync.objects.ref import ObjectRef
from gitsync.objects.user import User
from gitsync.plan.parts import Choice
from gitsync.plan.running import Execution
from gitsync.ports import (
    ApplicationView,
    Cost,
    DiskSpace,
    Distribution,
    DriftTotals,
    FileVersion,
    KubernetesEvent,
    LogRequest,
    MetricSeries,
    ResourceView,
    Sizes,
    StateEvent,
)
from gitsync.ports.previews import ProposalView
from gitsync.record.database import RecordDatabase
from gitsync.record.records import SqlRecords
from gitsync.record.shared import SqlViews
from gitsync.render.provenance.trace import Traces
from gitsync.server.auth.access import Access, Exposure, SignIn
from gitsync.server.notify.rules import Receivers
from gitsync.services.updates import UpdateKey, UpdateState, UpdateView
from gitsync.services.usage import TokenWeek, UsageHistory
from gitsync.services.workloads import WorkloadAction
from gitsync.state.costs import Costs

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FORM = "f" * 43
"""A form token, as the browser's cookie and in the form."""


@dataclass(slots=True)
class StillView:
    views: dict[str, ApplicationView]
    children: dict[str, tuple[Manifest, ...]] = field(default_factory=dict)
    held: tuple[Manifest, ...] = ()
    kept: list[StateEvent] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    costs: Costs = field(default_factory=Costs)

    def cost(self, key: str) -> Cost:
        return self.costs.of(key)

    def api_requests(self) -> int:
        return self.costs.requests.value

    def sizes(self) -> Sizes:
        return Sizes({"pods": 3, "deployments.apps": 2}, {"events": len(self.kept)}, 4096, DiskSpace(1000, 250))

    def drift_totals(self) -> DriftTotals:
        return DriftTotals()

    def restarts(self) -> Mapping[str, int]:
        return {"OOMKilled": 3}

    def stage_durations(self) -> Mapping[str, Distribution]:
        return self.costs.distributions()

    def applications(self) -> tuple[ApplicationView, ...]:
        return tuple(self.views.values())

    def application(self, key: str) -> ApplicationView | None:
        return self.views.get(key)

    def events(self, after: int = 0, *, limit: int = 500) -> tuple[StateEvent, ...]:
        with self.lock:
            return tuple(event for event in self.kept if event.id > after)[:limit]

    def wait(self, after: int, timeout: float) -> bool:
        return self.bounds[1] > after

    @property
    def bounds(self) -> tuple[int, int]:
        with self.lock:
            return (self.kept[0].id, self.kept[-1].id) if self.kept else (0, 0)

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        return next((item.change.live for item in self.views[key].resources if item.ref == ref), None)

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        return self.owned_by(uid_of(self.live(key, ref) or {}))

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        return self.children.get(uid, ())

    def held_owners(self) -> tuple[Manifest, ...]:
        return self.held

    def happen(self, application: str, kind: str = "resource", *, forget: int = 2000) -> None:
        """Let something happen; only the latest events are kept, as in the engine."""
        with self.lock:
            last = self.kept[-1].id if self.kept else 0
            self.kept = [*self.kept, StateEvent(last + 1, NOW, application, kind, "changed")][-forget:]


@dataclass(slots=True)
class RecordedRequests:
    """The requests of users, in order."""

    done: list[tuple[str, ...]] = field(default_factory=list)
    urls: dict[str, str] = field(default_factory=dict)
    """The repositories of the Applications."""
    parts: dict[ObjectRef, tuple[tuple[str, ObjectRef], ...]] = field(default_factory=dict)
    """The Applications of Pods, with the object that each declares."""
    observed: list[str] = field(default_factory=list)
    """The Applications of other processes that a user asked for."""
    pushes: list[Push | None] = field(default_factory=list)
    """The pushes of events, None for one that lists no files."""

    def request_sync(self, key: str, by: str) -> bool:
        self.done.append(("sync", key, by))
        return True

    def observe(self, key: str) -> None:
        self.observed.append(key)

    def request_chosen(self, key: str, choice: Choice) -> str:
        self.done.append(("sync-objects", key, choice.by, *sorted(map(str, choice.refs)), *choice.options))
        return f"request-{len(self.done)}"

    def request_repair(self, key: str, refs: frozenset[ObjectRef], by: str) -> bool:
        self.done.append(("repair", key, by, *sorted(ref.path for ref in refs)))
        return True

    def repository_changed(self, is_it: Callable[[str], bool], push: Push | None = None) -> int:
        keys = [key for key, url in self.urls.items() if is_it(url)]
        self.poll_now(keys)
        self.pushes.append(push)
        return len(keys)

    def pod_entered(self, pod: ObjectRef, execution: Execution) -> tuple[tuple[str, ObjectRef], ...]:
        self.done.append((execution.verb, pod.name, execution.person))
        return self.parts.get(pod, ())

    def poll_now(self, keys: Iterable[str]) -> None:
        self.done.extend(("look", key) for key in keys)

    def suspend(self, key: str, suspended: bool) -> bool:
        self.done.append(("suspend" if suspended else "resume", key))
        return True

    def write_hold(self, key: str, name: str, text: str) -> bool:
        self.done.append(("hold" if text else "unhold", key, name))
        return True

    def wake_owner(self, manifest: Manifest, digest: str) -> None:
        self.done.append(("wake", manifest["metadata"]["name"], digest))

    def queue_length(self) -> int:
        return 0


@dataclass(slots=True)
class RecordedWorkloads:
    """What was done to workloads and Pods; ``error`` is raised instead."""

    done: list[tuple[str, str, str]] = field(default_factory=list)
    error: GitsyncError | None = None

    def write_of(self, action: WorkloadAction) -> Callable[[Application, Manifest], None]:
        def write(app: Application, live: Manifest) -> None:
            if self.error is not None:
                raise self.error
            self.done.append((action.value, app.key, live["metadata"]["name"]))

        return write


@dataclass(slots=True)
class RecordedDryRuns:
    """Which steps were asked about; ``errors`` are the answers that are refusals, by the name of the object."""

    asked: list[tuple[str, str, bool]] = field(default_factory=list)
    errors: dict[str, GitsyncError] = field(default_factory=dict)

    def of(self, app: Application, change: Change, *, replaces: bool = False) -> StepResult:
        self.asked.append((app.key, str(change.ref), replaces))
        error = self.errors.get(change.ref.name)
        if error is not None:
            return StepResult(change, Outcome.FAILED, str(error), error=error)
        return StepResult(change, Outcome.SUCCEEDED, change.reason)


@dataclass(slots=True)
class StillOrigins:
    """Where fields come from, and what was asked for."""

    known: Traces = field(default_factory=dict)
    written: dict[str, Commit] = field(default_factory=dict)
    files: dict[str, tuple[FileVersion, ...]] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[ObjectRef, list[str]]]] = field(default_factory=list)

    def trace(self, app: Application, commit: str, wanted: dict[ObjectRef, list[str]]) -> Traces:
        self.asked.append((app.key, commit, wanted))
        return self.known

    def authors(self, app: Application, commit: str, places: Collection[str]) -> Mapping[str, Commit]:
        return {place: self.written[place] for place in places if place in self.written}

    def file_versions(
        self, app: Application, commit: str, files: Collection[str]
    ) -> Mapping[str, tuple[FileVersion, ...]]:
        return {file: self.files.get(file, ()) for file in files}


@dataclass(slots=True)
class KeptDetails:
    """Events and logs; ``error`` is raised instead of an answer."""

    found: list[KubernetesEvent] = field(default_factory=list)
    log: str = ""
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    error: GitsyncError | None = None
    applications: dict[str, Manifest] = field(default_factory=dict)
    """The Applications as the API server has them, by key."""

    def application(self, key: str) -> Manifest:
        self.asked.append((key,))
        return self.applications[key]

    def events(self, ref: ObjectRef) -> tuple[KubernetesEvent, ...]:
        self.asked.append((ref,))
        if self.error is not None:
            raise self.error
        return tuple(self.found)

    def logs(self, request: LogRequest) -> str:
        self.asked.append((request.namespace, request.pod, request.container, request.is_previous, request.lines))
        if self.error is not None:
            raise self.error
        return self.log


def stored_set(name: str, reason: str, status: str = "False", **more: Any) -> Manifest:
    """Return an ApplicationSet with its status."""
    ready = {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": f"{reason} of <{name}>",
        "lastTransitionTime": "2026-03-01T11:00:00Z",
    }
    counts = {"desired": 3, "current": 2, "failed": 0, "waiting": 1}
    return {
        "apiVersion": "gitsync.dev/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": name, "namespace": "gitsync"},
        "spec": {"generators": [{"git": {"repoURL": "https://git.example.com/shop.git"}}]},
        "status": {"conditions": [ready], "counts": counts, **more},
    }


@dataclass(slots=True)
class StillSets:
    """ApplicationSets with their status; ``polled`` are the URLs of pushes that one of them reads."""

    known: list[Manifest] = field(default_factory=list)
    polled: list[str] = field(default_factory=list)

    def sets(self) -> tuple[Manifest, ...]:
        return tuple(self.known)

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        urls = [one["spec"]["generators"][0]["git"]["repoURL"] for one in self.known]
        self.polled += [url for url in urls if is_it(url)]
        return len(self.polled)


def access_of(**options: Any) -> Access:
    """Return who may use a dashboard, by the members of ``SignIn`` and ``Exposure`` and the options of ``Access``."""
    sign_in = {name: options.pop(name) for name in SignIn.__slots__ if name in options}
    exposure = {name: options.pop(name) for name in Exposure.__slots__ if name in options}
    return Access(SignIn(**sign_in), Exposure(**exposure), **options)


class StoppedClock:
    def now(self) -> datetime:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@dataclass(slots=True)
class StillPolicies:
    """The same policy for every application; viewers are those of ``named``."""

    policy: Policy = field(default_factory=Policy)
    problem: str = ""
    named: tuple[Policy, ...] = ()
    asked: list[str] = field(default_factory=list)

    def sees_all(self, user: User) -> bool:
        return all(may_view(user, policy) for policy in self.named)

    def may_view(self, key: str, user: User) -> bool:
        return may_view(user, policy_named(self.named, key))

    def of(self, app: Application) -> Policy:
        self.asked.append(app.key)
        return self.policy

    def summaries(self, applications: Iterable[Application]) -> tuple[PolicySummary, ...]:
        return summaries(applications, PolicySet((self.policy, *self.named)))

    def explain(self, app: Application) -> tuple[Setting, ...]:
        return explain(app, (self.policy,), PolicySet((self.policy,)))


@dataclass(slots=True)
class StillUsage:
    """Tokens by namespace and Service."""

    known: dict[tuple[str, str], int] = field(default_factory=dict)
    weeks: dict[tuple[str, str], TokenWeek] = field(default_factory=dict)
    series: dict[str, MetricSeries] = field(default_factory=dict)

    def over_time(self, _ref: ObjectRef, _period: timedelta, prices: Prices) -> dict[str, MetricSeries]:
        return {name: series for name, series in self.series.items() if prices or name != "cost"}

    def by_service(self) -> dict[tuple[str, str], int]:
        return self.known

    def last_week(self) -> dict[tuple[str, str], TokenWeek]:
        return self.weeks


@dataclass(slots=True)
class StillPodUsage:
    """PodMetrics by namespace and name, and how often they were read."""

    known: dict[tuple[str, str], Manifest] = field(default_factory=dict)
    reads: int = 0
    history: UsageHistory = field(default_factory=UsageHistory)

    def by_pod(self) -> dict[tuple[str, str], Manifest]:
        self.reads += 1
        return self.known


@dataclass(slots=True)
class StillProposals:
    """Proposals as given, and how often they were polled."""

    views: list[ProposalView] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    polls: int = 0

    def proposals(self) -> tuple[ProposalView, ...]:
        return tuple(self.views)

    def failures(self) -> Mapping[str, str]:
        return self.problems

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        matching = [view for view in self.views if is_it(view.proposal.repository)]
        self.polls += bool(matching)
        return len(matching)


@dataclass(slots=True)
class StillKeeps:
    """What users kept: Application, values, and in whose name."""

    kept: list[tuple[str, list[ClusterValue], str]] = field(default_factory=list)

    def keep(self, app: Application, values: Sequence[ClusterValue], *, author: str, reason: str = "") -> None:
        self.kept.append((app.key, list(values), author))


@dataclass(slots=True)
class StillUpdates:
    """Updates as given, and what users proposed: key, digest, in whose name, why."""

    views: list[UpdateView] = field(default_factory=list)
    proposed: list[tuple[UpdateKey, str, str, str]] = field(default_factory=list)
    changed: list[Collection[str]] = field(default_factory=list)

    def images_changed(self, names: Collection[str]) -> int:
        self.changed.append(names)
        return 1

    def updates(self) -> tuple[UpdateView, ...]:
        return tuple(self.views)

    def propose(self, key: UpdateKey, digest: str, *, author: str, reason: str) -> UpdateView:
        views = [view for view in self.views if view.key == key]
        if not views:
            raise WrongState("declares no such update", object=key.application)
        self.proposed.append((key, digest, author, reason))
        return replace(
            views[0], state=UpdateState.PROPOSED, branch=f"gitsync/promote-{key.application}", commit="c" * 40
        )


@dataclass(slots=True)
class StillEngine:
    view: StillView
    requests: RecordedRequests
    records: SqlRecords
    reverts: Any
    provenance: Any
    preview: Any
    details: KeptDetails
    policies: Any
    clock: StoppedClock
    usage: StillUsage = field(default_factory=lambda: StillUsage())
    pod_usage: StillPodUsage = field(default_factory=lambda: StillPodUsage())
    receivers: Receivers = field(default_factory=Receivers)
    sets: StillSets = field(default_factory=lambda: StillSets())
    found_problems: tuple[str, ...] = ()
    is_replica: bool = False
    others: frozenset[str] = frozenset()
    """The Applications of other replicas."""
    keeps: Any = field(default_factory=lambda: StillKeeps())
    updates: StillUpdates = field(default_factory=lambda: StillUpdates())
    workloads: RecordedWorkloads = field(default_factory=lambda: RecordedWorkloads())
    dry_runs: RecordedDryRuns = field(default_factory=lambda: RecordedDryRuns())
    pull_requests: StillProposals = field(default_factory=lambda: StillProposals())

    @property
    def views(self) -> SqlViews:
        return SqlViews(self.records._database)

    def problems(self) -> tuple[str, ...]:
        return self.found_problems

    def owns(self, key: str) -> bool:
        return key not in self.others


def engine(folder: Path, views: Iterable[ApplicationView]) -> StillEngine:
    records = SqlRecords(RecordDatabase(f"sqlite:///{folder}/records.db"))
    known = {view.key: view for view in views}
    urls = {key: view.application.source.repo_url for key, view in known.items() if view.application is not None}
    return StillEngine(
        StillView(known),
        RecordedRequests(urls=urls),
        records,
        None,
        StillOrigins(),
        None,
        KeptDetails(),
        StillPolicies(),
        StoppedClock(),
    )


def resource(
    name: str,
    kind: str = "ConfigMap",
    *,
    sync: str = "Synced",
    health: Health = Health.HEALTHY,
    message: str = "",
    problem: str = "",
    differences: tuple[FieldDifference, ...] = (),
    risk: Risk = Risk.SAFE,
) -> ResourceView:
    ref = ObjectRef("apps" if kind == "Deployment" else "", kind, "shop", name)
    live = {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"}}
    action = Action.NOTHING if sync == "Synced" else Action.UPDATE
    change = Change(ref, action, risk=risk, rule="a-rule", reason="because", live=live, differences=differences)
    return ResourceView(ref, "v1", sync, HealthStatus(health, message), change, problem)


def changed(path: str = ".data.mode", live: Any = "closed", desired: Any = "open") -> FieldDifference:
    owner = FieldOwner("kubectl-edit", "Update", "2026-03-01T11:00:00Z")
    return FieldDifference(path, "/data/mode", Difference.CHANGED, desired, live, (owner,))


def edited(view: ResourceView) -> ResourceView:
    """Return an object that Git declares, with differences that were made in the cluster."""
    return replace(view, change=replace(view.change, desired=view.change.live))


def application(
    name: str = "shop",
    resources: Iterable[ResourceView] = (),
    *,
    phase: str = "Synced",
    sync: str = "Synced",
    health: str = "Healthy",
    message: str = "Open the shop",
    author: str = "Ada",
    ready: str = "",
    held: tuple[str, ...] = (),
    holds: tuple[HoldReason, ...] = (HoldReason.APPROVAL,),
    spec: Manifest | None = None,
    digest: str = "d" * 64,
) -> ApplicationView:
    """Return a view; with ``held`` its plan waits for these reasons."""
    found = tuple(resources)
    app = parse_application(
        {
            "metadata": {"name": name, "namespace": "gitsync", "uid": "u"},
            "spec": {
                "source": {"repoURL": "https://git.example.com/shop.git"},
                "suspend": phase == "Suspended",
                **(spec or {}),
            },
        }
    )
    changes = tuple(item.change for item in found)
    risk = max((change.risk for change in changes), key=lambda item: item.level, default=Risk.SAFE)
    plan = Plan(f"gitsync/{name}", "c" * 40, changes, digest, risk, explanation="It changes things.")
    since = (NOW - timedelta(minutes=5)).isoformat()
    return ApplicationView(
        key=f"gitsync/{name}",
        application=app,
        status={
            "phase": "AwaitingApproval" if held else phase,
            "sync": sync,
            "health": health,
            "revision": {"fetched": "c" * 40, "applied": "c" * 40, "message": message, "author": author},
            "resources": {"total": len(found), "synced": len(found)},
            "conditions": [{"type": "Ready", "status": "True", "message": ready, "lastTransitionTime": since}],
        },
        resources=found,
        plan=plan,
        verdict=Verdict(Decision.HELD, held, holds=holds) if held else None,
        seen=NOW - timedelta(seconds=3),
    )


def moved(view: ApplicationView) -> ApplicationView:
    """Return the view with another plan."""
    assert view.plan is not None
    return replace(view, plan=replace(view.plan, digest="e" * 64))
