"""In-memory state of all Applications, for the dashboard and to find the Applications of a changed object."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from gitsync.errors import Refused
from gitsync.kube.parts import PART_KINDS
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.record import SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import mask
from gitsync.ports import ApplicationView, Cluster, Cost, Distribution, LiveCache, ResourceView, Sizes, StateEvent
from gitsync.sync.costs import Costs
from gitsync.sync.input import ReconcileInput

Branch = tuple[str, str]
"""A repository's URL and the revision that an Application follows there."""

_KEPT_EVENTS = 2000
_DEPTH = 8
"""Levels of parts below an object: a cycle of owners must not hold a request."""


def branch_of(app: Application) -> Branch | None:
    """Return the branch that an Application follows, None where its spec is invalid."""
    source = app.source
    return (source.repo_url, source.revision.removeprefix("refs/heads/")) if source.repo_url else None


@dataclass(slots=True)
class DeclaredAt:
    """The commit of a branch at which Applications have declared their objects; those that move together share one."""

    branch: Branch
    commit: str


_UNKNOWN: Final = DeclaredAt(("", ""), "")
"""The branch of an Application that was not reconciled yet."""


class _Happened(NamedTuple):
    """A StateEvent without what the store adds to it."""

    kind: str
    message: str
    ref: str = ""
    states: tuple[str, ...] = ()


class StateStore:
    """
    The latest view of each Application and a ring buffer of events; see the port ``StateReader``.

    An Application whose cluster cannot be observed keeps its last resources, while its status is Unknown.
    """

    def __init__(self, cluster: Cluster, live: LiveCache) -> None:
        self._cluster = cluster
        self._live = live
        self._changed = threading.Condition()
        self._applications: dict[str, ApplicationView] = {}
        self._events: deque[StateEvent] = deque(maxlen=_KEPT_EVENTS)
        self._last = 0
        self._interest: dict[ObjectRef, frozenset[str]] = {}
        self._refs: dict[str, frozenset[ObjectRef]] = {}
        self._declared_at: dict[str, DeclaredAt | None] = {}
        self._declared: dict[ObjectRef, frozenset[str]] = {}
        self._declares: dict[str, frozenset[ObjectRef]] = {}
        self._shared: set[ObjectRef] = set()
        """The objects that several Applications declare."""
        self.costs = Costs()
        self.caches: dict[str, Callable[[], int]] = {}
        """Caches of others, by name: each returns its number of entries."""
        self.cached_objects: Callable[[], Mapping[str, int]] = dict
        """Return how many live objects are cached, by resource."""
        self.enqueue: Callable[[str], None] = lambda key: None
        """Called with an Application that has to reconcile because of what another one declares."""

    def publish(
        self,
        view: ApplicationView,
        drift: Iterable[tuple[ObjectRef, str]] = (),
        record: SyncRecord | None = None,
    ) -> None:
        """Store the view of a reconcile, and emit events for what differs from the previous one."""
        with self._changed:
            before = self._applications.get(view.key)
            if view.plan is None and before is not None:
                view = replace(view, resources=before.resources, plan=before.plan)
            self._store(view, before, (*_drift_events(drift), *_sync_events(record)))

    def publish_remote(self, given: ReconcileInput, status: Manifest) -> None:
        """
        Store what the status says of an Application that another replica reconciles: its commit and its inventory.

        Its objects are not shown, since they are not observed here.
        """
        key, app = given.app.key, given.app
        branch = branch_of(app)
        if branch is None or app.suspend or app.is_deleted:
            self.leave_branch(key)
        else:
            self.record_declared(key, branch, given.state.applied)
        self.set_declared(key, frozenset(given.state.inventory.entries))
        self.track(key, frozenset())
        with self._changed:
            before = self._applications.get(key)
            if before is not None and before.resources:
                before = None  # from when this replica reconciled it
            known = app if app.source.repo_url else None
            plan = before.plan if before is not None else None
            view = ApplicationView(key, known, status, (), plan, None, given.now)
            if before is None or not _is_equal_view(before, view):
                self._store(view, before)

    def _store(self, view: ApplicationView, before: ApplicationView | None, events: Iterable[_Happened] = ()) -> None:
        """Store a view; one that shows the same as the previous one keeps its sequence."""
        if before is not None and _is_equal_view(before, view):
            self._applications[view.key] = replace(view, sequence=before.sequence)
            return
        self._applications[view.key] = replace(view, sequence=self._last + 1)
        for event in (*_differences(before, view), *events):
            self._emit(view.seen, view.key, event)

    def remove(self, key: str, now: datetime) -> None:
        """Remove a deleted Application."""
        with self._changed:
            self._declared_at.pop(key, None)
            if self._applications.pop(key, None) is not None:
                self._emit(now, key, _Happened("removed", "is gone"))
        self.track(key, frozenset())
        self.set_declared(key, frozenset())
        self.costs.forget(key)

    def declared_elsewhere(self, key: str, refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
        """Return which of these objects another Application declares in Git, and which Application."""
        with self._changed:
            own, shared = self._declares.get(key, frozenset()), self._shared
            doubtful = [ref for ref in refs if ref not in own or ref in shared]
            declared = {ref: others for ref in doubtful if (others := self._declared.get(ref, frozenset()) - {key})}
        return {ref: min(others) for ref, others in declared.items()}

    def set_declared(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """
        Store which objects an Application declares in Git.

        The others that declare an object which it does not declare any more are enqueued: they may apply it now.
        """
        with self._changed:
            before = self._declares.get(key, frozenset())
            if key in self._declares and before == refs:
                return
            _index(self._declared, key, before, refs)
            self._declares[key] = refs
            self._shared.difference_update(before - refs)
            self._shared.update(ref for ref in before ^ refs if len(self._declared.get(ref, ())) > 1)
            rivals = frozenset[str]().union(*(self._declared.get(ref, frozenset()) for ref in before - refs))
        for rival in rivals:
            self.enqueue(rival)

    def register(self, keys: Iterable[str]) -> None:
        """Register all Applications before the first reconcile."""
        with self._changed:
            for key in keys:
                self._declared_at.setdefault(key, _UNKNOWN)

    def record_declared(self, key: str, branch: Branch, commit: str) -> None:
        """Store that an Application has declared its objects at a commit of its branch."""
        with self._changed:
            self._declared_at[key] = DeclaredAt(branch, commit)

    def advance_declared(self, key: str, before: DeclaredAt, after: DeclaredAt) -> None:
        """Store that an Application which has declared its objects at ``before`` declares the same at ``after``."""
        with self._changed:
            if self._declared_at.get(key) == before:
                self._declared_at[key] = after

    def leave_branch(self, key: str, declared: Iterable[ObjectRef] = ()) -> None:
        """
        Store that an Application does not follow Git now, because it is suspended, deleted or invalid.

        It delays no prune. Its last declaration counts, or ``declared`` where none is known.
        """
        with self._changed:
            self._declared_at[key] = None
            is_known = key in self._declares
        if not is_known:
            self.set_declared(key, frozenset(declared))

    def applications_behind(self, key: str, branch: Branch, commit: str) -> tuple[str, ...]:
        """
        Return the other Applications of a branch that have not declared their objects at a commit of it.

        Until they have, one of them may take over an object that left this Application. Applications that were never
        reconciled count, since their branch is not known.
        """
        with self._changed:
            return tuple(
                sorted(
                    other
                    for other, declared in self._declared_at.items()
                    if other != key
                    and declared is not None
                    and (declared is _UNKNOWN or (declared.branch == branch and declared.commit != commit))
                )
            )

    def track(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """Track the objects whose changes enqueue an Application."""
        with self._changed:
            _index(self._interest, key, self._refs.get(key, frozenset()), refs)
            self._refs[key] = refs

    def track_more(self, key: str, refs: AbstractSet[ObjectRef]) -> None:
        """Track these objects too."""
        with self._changed:
            before = self._refs.get(key, frozenset())
            if not refs <= before:
                self.track(key, before | refs)

    def tracked(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects tracked for an Application."""
        with self._changed:
            return self._refs.get(key, frozenset())

    def applications_for(self, ref: ObjectRef) -> frozenset[str]:
        """Return the Applications that track an object."""
        with self._changed:
            return self._interest.get(ref, frozenset())

    def applications(self) -> tuple[ApplicationView, ...]:
        """Return every application, sorted by key."""
        with self._changed:
            return tuple(self._applications[key] for key in sorted(self._applications))

    def application(self, key: str) -> ApplicationView | None:
        """Return one application."""
        with self._changed:
            return self._applications.get(key)

    def events(self, after: int = 0, *, limit: int = 500) -> tuple[StateEvent, ...]:
        """Return the kept events with ids above ``after``, oldest first."""
        with self._changed:
            return tuple(event for event in self._events if event.id > after)[:limit]

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until there is a newer event; return whether there is one."""
        with self._changed:
            return self._changed.wait_for(lambda: self._last > after, timeout)

    @property
    def bounds(self) -> tuple[int, int]:
        """The ids of the oldest kept and the newest event."""
        with self._changed:
            return (self._events[0].id, self._last) if self._events else (0, 0)

    def live(self, key: str, ref: ObjectRef) -> Manifest | None:
        """Return a live object of an application, or a part of one, masked."""
        view = self.application(key)
        if view is None:
            return None
        for resource in view.resources:
            found = self._live_object(resource.ref, resource.version)
            if resource.ref == ref:
                return mask(found) if found is not None else None
            if found is not None and ref.of in PART_KINDS:
                for part in self._parts(found):
                    if part["kind"] == ref.kind and part["metadata"]["name"] == ref.name:
                        return mask(part)
        return None

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that this one owns, masked."""
        found = self.live(key, ref)
        return tuple(mask(part) for part in self._live.dependents(uid_of(found))) if found is not None else ()

    def cost(self, key: str) -> Cost:
        """Return what the reconciles of an application cost since the start of this process."""
        return self.costs.of(key)

    def api_requests(self) -> int:
        """Return how many requests to the API server were made for all applications since the start."""
        return self.costs.requests.value

    def sizes(self) -> Sizes:
        """Return how much this process keeps in memory."""
        entries = {"events": len(self._events), **{name: size() for name, size in self.caches.items()}}
        return Sizes(self.cached_objects(), entries)

    def stage_durations(self) -> Mapping[str, Distribution]:
        """Return how long each stage of the reconciles took, with the time in the queue."""
        return self.costs.distributions()

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        return tuple(mask(part) for part in self._live.dependents(uid))

    def _live_object(self, ref: ObjectRef, version: str) -> Manifest | None:
        resource = self._cluster.resource(ref.group, version, ref.kind)
        with suppress(Refused):  # its namespace is not watched
            return self._live.get(resource, ref.namespace, ref.name) if resource is not None else None
        return None

    def _parts(self, manifest: Manifest, depth: int = _DEPTH) -> Iterator[Manifest]:
        for part in self._live.dependents(uid_of(manifest)) if depth else ():
            yield part
            yield from self._parts(part, depth - 1)

    def _emit(self, time: datetime, application: str, event: _Happened) -> None:
        self._last += 1
        self._events.append(StateEvent(self._last, time, application, *event))
        self._changed.notify_all()


def _index(
    index: dict[ObjectRef, frozenset[str]], key: str, before: frozenset[ObjectRef], refs: frozenset[ObjectRef]
) -> None:
    """Move a key in an index by ref from its previous refs to its current ones."""
    for ref in before - refs:
        left = index[ref] - {key}
        if left:
            index[ref] = left
        else:
            del index[ref]
    for ref in refs - before:
        index[ref] = index.get(ref, frozenset()) | {key}


def _is_equal_view(before: ApplicationView, view: ApplicationView) -> bool:
    return (
        before.status == view.status
        and len(before.resources) == len(view.resources)
        and all(map(_is_equal_resource, before.resources, view.resources))
    )


def _is_equal_resource(before: ResourceView, resource: ResourceView) -> bool:
    return before is resource or _view_key(before) == _view_key(resource)


def _view_key(resource: ResourceView) -> tuple[object, ...]:
    return (
        resource.ref,
        resource.sync,
        resource.health,
        resource.problem,
        resource.change.differences,
        resource.foreign,
    )


def _differences(before: ApplicationView | None, view: ApplicationView) -> Iterator[_Happened]:
    """Yield an event for each difference between two views."""
    status, old = view.status, before.status if before else {}
    if any(status.get(name) != old.get(name) for name in ("sync", "health", "phase", "revision", "conditions")):
        states = (status.get(name) for name in ("phase", "sync", "health"))
        yield _Happened("application", "", states=tuple(str(state) for state in states if state))
    shown, now_shown = ({id(each) for each in seen.resources} if seen else set() for seen in (before, view))
    known = {each.ref: each for each in before.resources if id(each) not in now_shown} if before else {}
    changed = [resource for resource in view.resources if id(resource) not in shown]
    for resource in changed:
        if resource.ref not in known or not _is_equal_resource(known[resource.ref], resource):
            message = resource.problem or resource.health.message
            yield _Happened("resource", message, resource.ref.path, (resource.sync, resource.health.health.value))
    for ref in known.keys() - {resource.ref for resource in changed}:
        yield _Happened("resource", "gone", ref.path)


def _drift_events(drift: Iterable[tuple[ObjectRef, str]]) -> Iterator[_Happened]:
    for ref, line in drift:
        yield _Happened("drift", line, ref.path)


def _sync_events(record: SyncRecord | None) -> Iterator[_Happened]:
    if record is not None:
        count = len(record.steps)
        message = f"{count} {'change' if count == 1 else 'changes'} ({record.trigger})"
        yield _Happened("sync", message, states=(record.outcome.value,))
