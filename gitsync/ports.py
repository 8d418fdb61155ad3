"""What the engine needs from outside, in its own words. Edges implement these; tests may too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from gitsync.merge.schema import Schemas
from gitsync.objects.application import Application, GitSource
from gitsync.objects.change import Change, Plan, Review, Risk, Verdict
from gitsync.objects.health import HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditRecord, Commit, SyncRecord
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.objects.tree import Tree
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to sign in at a Git server; empty members are not used. Never logged, never in an error."""

    username: str = ""
    password: str = ""
    ssh_key: str = ""
    known_hosts: str = ""

    def __repr__(self) -> str:
        return "Credentials(…)"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of one commit. ``warnings`` are things left out on purpose, such as submodules."""

    commit: Commit
    tree: Tree
    git_dir: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RevertResult:
    """A revert that was pushed: the new commit, and the branch it went to."""

    commit: Commit
    branch: str


class Clock(Protocol):
    """Tell the time; waiting is done by queues and events, never by sleeping on a clock."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        ...


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind that the cluster serves, at one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    @property
    def api_version(self) -> str:
        """The apiVersion of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.kind} {self.api_version}"


class Cluster(Protocol):
    """
    Ask and write to a cluster by requests.

    Failures are ClusterUnavailable (try again; whether a write took effect is unknown), Conflict (read again) and
    Rejected (the object is at fault).
    """

    def resource(self, group: str, version: str, kind: str) -> Resource | None:
        """Return the resource of a kind, None when it is not served; an unknown kind is asked for again."""
        ...

    def schemas(self, group_versions: Iterable[tuple[str, str]]) -> Schemas:
        """Return the types of these groups and versions."""
        ...

    def definitions_changed(self) -> None:
        """Forget which kinds are served and what they look like."""
        ...

    def read(self, ref: ObjectRef, version: str) -> Manifest | None:
        """Return the object as it is now, None when it is absent."""
        ...

    def apply(
        self, manifest: Manifest, *, manager: str, force: bool = True, dry_run: bool = False, user: str = ""
    ) -> Manifest:
        """Apply server-side as this field manager, impersonating ``user`` if given; return the object then."""
        ...

    def set_managed_fields(
        self, live: Manifest, managed_fields: Sequence[Mapping[str, Any]], *, manager: str, user: str = ""
    ) -> None:
        """Transfer field ownership without changing a value; raise Conflict when the object is no longer ``live``."""
        ...

    def delete(self, ref: ObjectRef, version: str, *, uid: str, user: str = "") -> Manifest | None:
        """
        Ask for the object's deletion if it still has this uid; absent is no error.

        Return what is on its way out, None when the object is gone.
        """
        ...

    def replace(self, manifest: Manifest, *, manager: str, subresource: str = "") -> Manifest:
        """Write the object, or a subresource; raise Conflict unless its resourceVersion is the newest."""
        ...


class LiveCache(Protocol):
    """Live objects from local copies that watches keep true: no request, and absence means absence."""

    def follow(self, resources: Iterable[Resource], timeout: float) -> None:
        """
        Keep copies of these kinds too, and wait for the first complete list of each.

        Raise ClusterUnavailable when one is not complete in time or may be out of date.
        """
        ...

    def forget(self, of: GroupKind) -> None:
        """Stop following a kind that the cluster does not serve any more."""
        ...

    def get(self, resource: Resource, namespace: str, name: str) -> Manifest | None:
        """
        Return the object as last seen, None when it is absent; the kind must be followed.

        Raise Refused for one of a namespace that is not watched: whether it is there cannot be told.
        """
        ...

    def all(self, resource: Resource) -> tuple[Manifest, ...]:
        """Return every object of a followed kind."""
        ...

    def dependents(self, uid: str) -> tuple[Manifest, ...]:
        """Return the followed objects that name this uid as an owner."""
        ...

    def owners(self, manifest: Manifest) -> tuple[Manifest, ...]:
        """Return the object and its owners, the nearest first, as far as they are followed."""
        ...

    def observe_write(self, resource: Resource, manifest: Manifest) -> None:
        """Take the answer to our own write before its watch event comes."""
        ...

    def observe_delete(self, resource: Resource, manifest: Manifest) -> None:
        """Take it that our own delete removed the object, before its watch event comes."""
        ...


class Source(Protocol):
    """Read commits of Git repositories, one shared mirror per URL, and push reverts."""

    def check(self, source: GitSource) -> None:
        """Raise InvalidInput when the URL, revision or path may not be used; touches nothing outside."""
        ...

    def resolve(self, source: GitSource, credentials: Credentials, *, max_age: float = 0.0) -> str:
        """
        Return the full id of the commit that the revision names now.

        An answer of the server at most ``max_age`` seconds old may be used, so applications share polls.
        Raise SourceUnavailable when the server does not answer, InvalidInput when the revision does not exist.
        """
        ...

    def snapshot(self, source: GitSource, credentials: Credentials, commit: str) -> Snapshot:
        """Return the files of a commit, fetched if need be."""
        ...

    def changed_paths(self, source: GitSource, before: str, after: str) -> frozenset[str] | None:
        """Return the paths that differ between two commits of the mirror; None when that is not known."""
        ...

    def is_forward(self, source: GitSource, before: str, after: str) -> bool:
        """
        Tell whether the revision may have moved from one commit to another without a rewritten branch.

        False only for a branch whose new commit, which is in the mirror, does not contain the one before; tags,
        ranges and commit ids may name whatever they like.
        """
        ...

    def commits(self, source: GitSource, commit: str, *, limit: int = 20) -> tuple[Commit, ...]:
        """Return the commit and its first parents, newest first, from the mirror."""
        ...

    def revert(
        self, source: GitSource, credentials: Credentials, commits: Sequence[str], *, author: str, branch: str = ""
    ) -> RevertResult:
        """
        Make a commit that undoes these commits and push it to the tracked branch, or to ``branch`` for review.

        Raise Refused when a revert conflicts or the branch moved meanwhile; nothing is pushed then.
        """
        ...


class Renderer(Protocol):
    """Render a path of a snapshot."""

    def render(self, snapshot: Snapshot, path: str, renderer: str) -> Build:
        """Return the manifests and the files read; raise InvalidInput with ``file:line``."""
        ...

    def trace(self, snapshot: Snapshot, path: str, renderer: str, wanted: FieldSelection) -> Traces:
        """Return the steps that set these fields, in order; the empty field stands for the object."""
        ...


@dataclass(frozen=True, slots=True)
class Advice:
    """What a reasoner adds to the explanation of a plan, and the class that it would give it, with its reason."""

    explanation: str = ""
    risk: Risk = Risk.SAFE
    reason: str = ""


class Reasoner(Protocol):
    """Comment on plans. It never raises: what fails is an Advice that says so and changes nothing."""

    def advise(self, app: Application, plan: Plan, key: str) -> Advice | None:
        """Return what is said of a plan, asked for once; None while the answer is on its way. Returns at once."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One number, never NaN, and the labels of its series as text; empty where it has none."""

    value: float
    labels: str = ""


@dataclass(frozen=True, slots=True)
class MetricResult:
    """What a query gave: at least one number, or in words why there is none."""

    samples: tuple[Sample, ...] = ()
    problem: str = ""


class MetricsProvider(Protocol):
    """Ask for numbers of a monitoring system. It never raises: what fails is a Reading that says so."""

    def read(self, query: str, max_age: float) -> MetricResult | None:
        """Return what a query gives, asked at most so many seconds ago; None while that is on its way."""
        ...


class Records(Protocol):
    """History and audit. Every method raises RecordUnavailable when the database cannot do it."""

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append links to the audit chain, durably, before returning."""
        ...

    def save(self, record: SyncRecord) -> SyncRecord:
        """Keep the record of a sync; return it with its id."""
        ...

    def history(self, application: str = "", *, limit: int = 20, before: int = 0) -> tuple[SyncRecord, ...]:
        """Return records, newest first, of one application or of all, with ids below ``before`` when it is given."""
        ...

    def record(self, id: int) -> SyncRecord | None:
        """Return one record."""
        ...

    def audit_records(
        self,
        application: str = "",
        *,
        sync: str = "",
        action: str = "",
        outcome: str = "",
        limit: int = 100,
        before: int = 0,
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first; an empty filter lets all pass."""
        ...

    def export(self, application: str = "") -> Iterator[AuditRecord]:
        """Yield the audit chain of one application or of all, oldest first, without holding all of it in memory."""
        ...

    def unfinished(self) -> tuple[AuditRecord, ...]:
        """Return intents that no outcome follows: what a crash interrupted."""
        ...

    def keep_review(self, application: str, digest: str, review: Review, link: AuditRecord) -> None:
        """Store what a person says of exactly this plan instead of what was said before, and its audit link with it."""
        ...

    def review(self, application: str, digest: str, now: datetime, *, sync: str = "") -> Review | None:
        """
        Return what was last said of this plan; an approval only while it may be used.

        It lapses, and it is for one sync: the first intent that names its approver uses it, in one transaction. A
        sync that was interrupted before anything of it was done, and ``sync`` itself, may go on with it.
        """
        ...

    def end_approval(self, application: str, digest: str) -> None:
        """Drop the approval of a plan: its sync is over."""
        ...

    def verify(self) -> tuple[str, ...]:
        """Return what is wrong with the audit chain, one line each; empty when it is whole."""
        ...

    def forget(self, application: str, *, keep: int) -> None:
        """Drop the oldest history records of an application beyond ``keep``; the audit is kept."""
        ...

    def trim(self, before: datetime, now: datetime) -> int:
        """
        Drop the audit records older than a time, and return how many.

        The chain stays whole: its newest link then says up to which one it was cut, and that one's hash. A write
        without an outcome, and what follows it, stays.
        """
        ...


class AdviceCache(Protocol):
    """What reasoners answered, kept so that nobody is asked, and paid, twice for one plan; only the newest are."""

    def advice(self, digest: str, asked: str) -> Advice | None:
        """Return the answer about a plan by whoever ``asked`` names, None when there is none."""
        ...

    def keep_advice(self, digest: str, asked: str, advice: Advice) -> None:
        """Keep an answer."""
        ...


@dataclass(frozen=True, slots=True)
class ResourceView:
    """
    One object of an application as it was last seen; nothing secret stands in it.

    ``sync`` is Synced, OutOfSync, Missing or ToPrune; ``change`` is the plan's step for it, masked.
    """

    ref: ObjectRef
    version: str
    sync: str
    health: HealthStatus
    change: Change
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ApplicationView:
    """
    One application as it was last seen.

    ``status`` is what stands (or will stand) in the custom resource; ``application`` is None while its spec cannot
    be read. ``plan`` is masked. ``sequence`` grows with every view that differs from the one before.
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
    Something that changed, for people and for live pages; ``id`` grows by one.

    ``kind`` is one of application, resource, drift, sync, removed; ``ref`` is empty for the application itself.
    """

    id: int
    time: datetime
    application: str
    kind: str
    message: str
    ref: str = ""


class StateReader(Protocol):
    """What the engine knows, from memory. Looking costs the cluster nothing and makes no application reconcile."""

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
        """Wait until there is an event with an id above ``after``; say whether there is."""
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

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        ...


class SyncRequests(Protocol):
    """What people may ask of the engine; it is done by a controller, not here."""

    def request_sync(self, key: str, by: str) -> bool:
        """
        Ask for a look at Git and a sync now, in the name of a person; False for an unknown application.

        It syncs also where automation is off, and passes windows that let people through.
        """
        ...

    def poll_now(self, keys: Iterable[str]) -> None:
        """Ask for a look at Git now, as a push event does; what follows is what a poll would do."""
        ...

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` of an Application and nothing else; False for an unknown one."""
        ...

    def queue_length(self) -> int:
        """Return how many applications wait for a worker."""
        ...
