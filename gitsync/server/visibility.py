"""
What one user may see: the engine without the Applications that policies show to others only.

Every route gets its engine from here, by ``BackendOf`` and ``PagesOf``, so that no page decides for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, Unpack

from gitsync.objects.inventory import OwnerKey
from gitsync.objects.keys import APPLICATION
from gitsync.objects.manifest import Manifest
from gitsync.objects.record import AuditFilter, AuditRecord, SyncRecord
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.ports import (
    ApplicationSets,
    ApplicationView,
    Clock,
    Cost,
    ObjectDetails,
    Records,
    StateEvent,
    StateReader,
    SyncRequests,
    ViewStore,
)
from gitsync.ports.previews import Proposals, ProposalView
from gitsync.server.backend import Backend, NoticeReceivers
from gitsync.services.adopt import KeepService
from gitsync.services.provenance import FieldProvenance
from gitsync.services.requests import DryRuns, WorkloadWriter
from gitsync.services.revert import RevertPreview, RevertService
from gitsync.services.updates import Updates, UpdateView
from gitsync.services.usage import PodUsage, TokenUsage
from gitsync.sync.policies import Policies

_Record = TypeVar("_Record", AuditRecord, SyncRecord)
Shows = Callable[[str], bool]
"""Whether an Application (``namespace/name``) is shown."""


def visible_to(engine: Backend, user: User) -> Backend:
    """Return the engine as a user sees it, the same one where no policy hides Applications from them."""
    # routes and pages both filter: the second time changes nothing
    if isinstance(engine, VisibleBackend) or engine.policies.sees_all(user):
        return engine
    shows = partial(engine.policies.may_view, user=user)
    view = VisibleState(engine.view, shows)
    return VisibleBackend(
        view,
        engine.requests,
        VisibleSets(engine.sets, shows),
        VisibleRecords(engine.records, view, shows),
        engine.views,
        engine.reverts,
        engine.provenance,
        engine.preview,
        engine.details,
        engine.policies,
        engine.usage,
        engine.pod_usage,
        engine.receivers,
        engine.clock,
        engine.problems,
        VisibleProposals(engine.pull_requests, shows),
        engine.keeps,
        VisibleUpdates(engine.updates, shows),
        engine.workloads,
        engine.dry_runs,
        engine.is_replica,
        engine.owns,
    )


@dataclass(frozen=True, slots=True)
class VisibleBackend:
    """An engine that shows some Applications, as ``Backend``."""

    view: StateReader
    requests: SyncRequests
    sets: ApplicationSets
    records: Records
    views: ViewStore
    reverts: RevertService
    provenance: FieldProvenance
    preview: RevertPreview
    details: ObjectDetails
    policies: Policies
    usage: TokenUsage
    pod_usage: PodUsage
    receivers: NoticeReceivers
    clock: Clock
    problems: Callable[[], tuple[str, ...]]
    pull_requests: Proposals
    keeps: KeepService
    updates: Updates
    workloads: WorkloadWriter
    dry_runs: DryRuns
    is_replica: bool
    owns: Callable[[str], bool]


class VisibleProposals:
    """The proposals of repositories of which all Applications are shown, as ``Proposals``."""

    def __init__(self, proposals: Proposals, shows: Shows) -> None:
        self._proposals = proposals
        self._shows = shows
        # a push comes from a Git server, not from a user: it polls all
        self.repository_changed = proposals.repository_changed

    def proposals(self) -> tuple[ProposalView, ...]:
        """Return the proposals that are shown: a preview has the objects of all Applications of its repository."""
        return tuple(view for view in self._proposals.proposals() if all(map(self._shows, view.applications)))

    def failures(self) -> Mapping[str, str]:
        """Return nothing: an error names a repository, and perhaps an Application that is not shown."""
        return {}


class VisibleUpdates:
    """The updates of which all Applications are shown, as ``Updates``."""

    def __init__(self, updates: Updates, shows: Shows) -> None:
        self._updates = updates
        self._shows = shows
        # the Application of a request is looked up among those that are shown
        self.propose = updates.propose
        # a push comes from a registry, not from a user: it checks all
        self.images_changed = updates.images_changed

    def updates(self) -> tuple[UpdateView, ...]:
        """Return the updates that are shown: a promotion has values of the Applications before it."""
        return tuple(view for view in self._updates.updates() if all(map(self._shows, view.sources)))


class VisibleSets:
    """The ApplicationSets that are shown: a policy names them as ``namespace/applicationset:name``."""

    def __init__(self, sets: ApplicationSets, shows: Shows) -> None:
        self._sets = sets
        self._shows = shows
        # a push comes from a Git server, not from a user: it polls all
        self.repository_changed = sets.repository_changed

    def sets(self) -> tuple[Manifest, ...]:
        """Return the sets that are shown."""
        return tuple(manifest for manifest in self._sets.sets() if self._shows(str(OwnerKey.of_ref(ref_of(manifest)))))


class VisibleState:
    """The state of the Applications that are shown, as ``StateReader``."""

    def __init__(self, state: StateReader, shows: Shows) -> None:
        self._state = state
        self._shows = shows
        self.wait = state.wait
        # totals of all: only the metrics read them, and refuse a user who does not see all
        self.drift_totals = state.drift_totals
        self.restarts = state.restarts
        self.stage_durations = state.stage_durations
        self.api_requests = state.api_requests
        self.sizes = state.sizes

    def applications(self) -> tuple[ApplicationView, ...]:
        """Return the Applications that are shown, sorted by key."""
        return tuple(view for view in self._state.applications() if self._shows(view.key))

    def application(self, key: str) -> ApplicationView | None:
        """Return one Application; None also for one that is not shown."""
        return self._state.application(key) if self._shows(key) else None

    def events(self, after: int = 0, *, limit: int = 500) -> tuple[StateEvent, ...]:
        """Return the kept events about Applications that are shown."""
        return tuple(event for event in self._state.events(after, limit=limit) if self._shows(event.application))

    @property
    def bounds(self) -> tuple[int, int]:
        """The ids of the oldest kept and the newest event of all."""
        # numbers only: they show that something happened, not where
        return self._state.bounds

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        """Return a live object of an Application that is shown, but for a generated Application that is not."""
        view = self.application(key)
        if view is None or (self._is_hidden(ref) and all(ref != item.ref for item in view.resources)):
            return None
        return self._state.live(key, ref)

    def cost(self, key: str) -> Cost:
        """Return what an Application that is shown cost."""
        return self._state.cost(key) if self._shows(key) else Cost()

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that an object of an Application that is shown owns."""
        return self._shown(self._state.dependents(key, ref)) if self._shows(key) else ()

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid, which only the objects of an Application name, as an owner."""
        return self._shown(self._state.owned_by(uid))

    def held_owners(self) -> tuple[Manifest, ...]:
        """Return the Agents and systems whose plan waits that are shown: a policy names them by their owner key."""
        return tuple(owner for owner in self._state.held_owners() if self._shows(str(OwnerKey.of_ref(ref_of(owner)))))

    def _shown(self, parts: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
        """Return the parts without Applications of a set that are not shown."""
        return tuple(part for part in parts if not self._is_hidden(ref_of(part)))

    def _is_hidden(self, ref: ObjectRef) -> bool:
        return ref.of == APPLICATION and not self._shows(f"{ref.namespace}/{ref.name}")


class VisibleRecords:
    """
    The history and audit of the Applications that are shown, as ``Records``.

    Records about no Application, such as sign-ins and changes of policies, are not shown.
    """

    def __init__(self, records: Records, view: StateReader, shows: Shows) -> None:
        self._records = records
        self._view = view
        self._shows = shows
        # not filtered: routes call these for an Application that they read from the view
        self.audit = records.audit
        self.keep_review = records.keep_review
        self.review = records.review
        self.reviewed = records.reviewed
        self.save = records.save
        self.mark_failed = records.mark_failed
        self.end_approval = records.end_approval
        self.head = records.head
        self.verify = records.verify
        self.unresolved = records.unresolved
        self.trim = records.trim

    def history(self, application: str = "", *, limit: int = 20, before: int = 0) -> tuple[SyncRecord, ...]:
        """Return the syncs of one Application or of all that are shown, newest first."""
        read = partial(self._records.history, limit=limit, before=before)
        return self._newest(read, application, limit)

    def record(self, id: int) -> SyncRecord | None:
        """Return one sync; None also for one of an Application that is not shown."""
        record = self._records.record(id)
        return record if record is not None and self._shows(record.application) else None

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return the audit of one Application or of all that are shown, newest first."""
        read = partial(self._records.audit_records, limit=limit, before=before, **wanted)
        return self._newest(read, application, limit)

    def decisions(
        self, application: str = "", *, actions: Collection[str] = (), limit: int = 100, before: int = 0
    ) -> tuple[AuditRecord, ...]:
        """Return the decisions about one Application or about all that are shown, newest first."""
        read = partial(self._records.decisions, actions=actions, limit=limit, before=before)
        return self._newest(read, application, limit)

    def export(self, application: str = "") -> Iterator[AuditRecord]:
        """Yield the records of the chain about Applications that are shown, oldest first."""
        for record in self._records.export(application):
            if record.application and self._shows(record.application):
                yield record

    def _newest(self, read: Callable[[str], tuple[_Record, ...]], application: str, limit: int) -> tuple[_Record, ...]:
        """Return the newest records of one Application, or of all that are shown."""
        if application:
            return read(application) if self._shows(application) else ()
        # for each Application: to filter all records, a user of few Applications would make it read many pages
        records = [record for view in self._view.applications() for record in read(view.key)]
        return tuple(sorted(records, key=lambda record: record.id, reverse=True)[:limit])
