"""State: what the engine last saw, in memory, for the dashboard and for finding whose object changed."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from gitsync.errors import Refused
from gitsync.merge.schema import Schema
from gitsync.objects.change import Action, Change, Difference, FieldDifference
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, at, resource_version_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import undeclared
from gitsync.plan.field_owners import owners_of
from gitsync.plan.mask import mask, mask_change, mask_difference
from gitsync.ports import ApplicationView, Cluster, LiveCache, ResourceView, StateEvent
from gitsync.sync.reconcile import Reconcile

_KEPT_EVENTS = 2000
_SYNC = {Action.CREATE: "Missing", Action.PRUNE: "ToPrune", Action.NOTHING: "Synced"}


class StateStore:
    """
    Hold the latest view of each application and a ring of what changed; see the port ``View``.

    An application whose cluster cannot be observed keeps its last resources, while its status says Unknown.
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
        self._follows: dict[str, tuple[str, str]] = {}
        self._declared: dict[ObjectRef, frozenset[str]] = {}
        self._declares: dict[str, frozenset[ObjectRef]] = {}

    def publish(self, run: Reconcile, status: Manifest) -> None:
        """Take what a turn found, and the status that says so; events say what differs from before."""
        key = run.app.key
        with self._changed:
            before = self._applications.get(key)
            view = _view_of(run, status, before)
            if before is not None and _same(before, view):
                self._applications[key] = replace(view, sequence=before.sequence)
                return
            self._applications[key] = replace(view, sequence=self._last + 1)
            for kind, message, ref in _differences(before, view, run):
                self._emit(run.now, key, kind, message, ref)

    def publish_remote(self, run: Reconcile) -> None:
        """
        Take what another replica says of an application, by its status: which commit it follows, what it holds.

        Its objects are not shown, since they are not looked at here.
        """
        key, status = run.app.key, run.status_before
        fetched = str(at(status, "revision", "fetched", default=""))
        self.record_revision(key, run.app.source.repo_url, fetched)
        self.set_declared(key, frozenset(run.inventory.entries))
        self.track(key, frozenset())
        with self._changed:
            before = self._applications.get(key)
            if before is not None and before.resources:
                before = None  # from when it was ours
            view = _view_of(run, status, before)
            if before is None or not _same(before, view):
                self._applications[key] = replace(view, sequence=self._last + 1)
                for kind, message, ref in _differences(before, view, run):
                    self._emit(run.now, key, kind, message, ref)

    def remove(self, key: str, now: datetime) -> None:
        """Forget an application that is gone."""
        with self._changed:
            self._follows.pop(key, None)
            if self._applications.pop(key, None) is not None:
                self._emit(now, key, "removed", "is gone", "")
        self.track(key, frozenset())
        self.set_declared(key, frozenset())

    def declared_elsewhere(self, key: str, refs: Iterable[ObjectRef]) -> dict[ObjectRef, str]:
        """Return which of these objects another application declares in Git, and which one."""
        with self._changed:
            others = {ref: min(self._declared.get(ref, frozenset()) - {key}, default="") for ref in refs}
        return {ref: other for ref, other in others.items() if other}

    def set_declared(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """Say which objects an application declares in Git."""
        with self._changed:
            _index(self._declared, key, self._declares.get(key, frozenset()), refs)
            self._declares[key] = refs

    def register(self, keys: Iterable[str]) -> None:
        """Say which applications there are, before any was looked at."""
        with self._changed:
            for key in keys:
                self._follows.setdefault(key, ("", ""))

    def record_revision(self, key: str, repository: str, commit: str) -> None:
        """Say which commit of which repository an application follows now."""
        with self._changed:
            self._follows[key] = (repository, commit)

    def applications_behind(self, key: str, repository: str, commit: str) -> tuple[str, ...]:
        """
        Return the other applications of a repository that have not looked at this commit yet.

        Until they have, nobody knows whether an object that left this application went to one of them. Applications
        that were never looked at count, since their repository is not known.
        """
        with self._changed:
            return tuple(
                other
                for other, (followed, seen) in sorted(self._follows.items())
                if other != key and followed in ("", repository) and seen != commit
            )

    def track(self, key: str, refs: frozenset[ObjectRef]) -> None:
        """Say which objects concern an application."""
        with self._changed:
            _index(self._interest, key, self._refs.get(key, frozenset()), refs)
            self._refs[key] = refs

    def tracked(self, key: str) -> frozenset[ObjectRef]:
        """Return the objects that concern an application, as far as it was said."""
        with self._changed:
            return self._refs.get(key, frozenset())

    def applications_for(self, ref: ObjectRef) -> frozenset[str]:
        """Return the applications that an object concerns."""
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
        """Wait until there is a newer event; say whether there is."""
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
            if found is not None and ref.kind in ("Pod", "ReplicaSet", "Job"):
                for part in self._parts(found):
                    if part["kind"] == ref.kind and part["metadata"]["name"] == ref.name:
                        return mask(part)
        return None

    def dependents(self, key: str, ref: ObjectRef) -> tuple[Manifest, ...]:
        """Return the live objects that this one owns, masked."""
        found = self.live(key, ref)
        return tuple(mask(part) for part in self._live.dependents(uid_of(found))) if found is not None else ()

    def owned_by(self, uid: str) -> tuple[Manifest, ...]:
        """Return the live objects that name this uid as an owner, masked."""
        return tuple(mask(part) for part in self._live.dependents(uid))

    def _live_object(self, ref: ObjectRef, version: str) -> Manifest | None:
        resource = self._cluster.resource(ref.group, version, ref.kind)
        with suppress(Refused):  # its namespace is not watched
            return self._live.get(resource, ref.namespace, ref.name) if resource is not None else None
        return None

    def _parts(self, manifest: Manifest) -> Iterator[Manifest]:
        for part in self._live.dependents(uid_of(manifest)):
            yield part
            yield from self._live.dependents(uid_of(part))

    def _emit(self, time: datetime, application: str, kind: str, message: str, ref: str) -> None:
        self._last += 1
        self._events.append(StateEvent(self._last, time, application, kind, message, ref))
        self._changed.notify_all()


def _index(
    index: dict[ObjectRef, frozenset[str]], key: str, before: frozenset[ObjectRef], refs: frozenset[ObjectRef]
) -> None:
    """Move a key in an index by ref from what it was under to what it is under now."""
    for ref in before - refs:
        left = index[ref] - {key}
        if left:
            index[ref] = left
        else:
            del index[ref]
    for ref in refs - before:
        index[ref] = index.get(ref, frozenset()) | {key}


def _view_of(run: Reconcile, status: Manifest, before: ApplicationView | None) -> ApplicationView:
    observation, plan = run.observation, run.plan
    resources: tuple[ResourceView, ...] = before.resources if before else ()
    if plan is not None and observation is not None:
        known = {resource.ref: resource for resource in resources}
        resources = tuple(_resource(run, change, known.get(change.ref)) for change in plan.changes)
        plan = replace(plan, changes=tuple(mask_change(change) for change in plan.changes))
    else:
        plan = before.plan if before else None
    return ApplicationView(
        key=run.app.key,
        application=run.app if run.app.source.repo_url else None,
        status=status,
        resources=resources,
        plan=plan,
        verdict=run.verdict,
        seen=run.now,
    )


def _resource(run: Reconcile, change: Change, before: ResourceView | None) -> ResourceView:
    assert run.observation is not None
    ref = change.ref
    return ResourceView(
        ref=ref,
        version=run.observation.versions[ref],
        sync=_SYNC.get(change.action, "OutOfSync"),
        health=run.health.get(ref, HealthStatus(Health.UNKNOWN)),
        change=mask_change(change),
        problem=run.problems.get(ref, ""),
        foreign=_foreign(change, before, run.observation.schema_of),
    )


def _foreign(
    change: Change, before: ResourceView | None, schema_of: Callable[[Manifest], Schema | None]
) -> tuple[FieldDifference, ...]:
    """Return the fields that other managers added to an object, masked; those of the last pass if it is the same."""
    desired, live = change.desired, change.live
    if desired is None or live is None:
        return ()
    if before is not None and before.change.live is not None and before.change.desired is not None:
        is_same = resource_version_of(before.change.live) == resource_version_of(live) != ""
        if is_same and (before.change.desired is desired or before.change.desired == mask(desired)):
            return before.foreign
    if not any(owner.manager != FIELD_MANAGER for owner, _ in owners_of(live, FIELD_MANAGER).entries):
        return ()
    found = undeclared(desired, live, schema_of(desired))
    return tuple(mask_difference(change.ref, item) for item in found if item.kind is Difference.FOREIGN)


def _same(before: ApplicationView, view: ApplicationView) -> bool:
    return before.status == view.status and [_shown(r) for r in before.resources] == [_shown(r) for r in view.resources]


def _shown(resource: ResourceView) -> tuple[object, ...]:
    return (
        resource.ref,
        resource.sync,
        resource.health,
        resource.problem,
        resource.change.differences,
        resource.foreign,
    )


def _differences(
    before: ApplicationView | None, view: ApplicationView, run: Reconcile
) -> Iterator[tuple[str, str, str]]:
    """Yield kind, message and ref of what changed between two views."""
    status, old = view.status, before.status if before else {}
    if any(status.get(name) != old.get(name) for name in ("sync", "health", "phase", "revision", "conditions")):
        yield "application", f"{status.get('phase')}, {status.get('sync')}, {status.get('health')}", ""
    known = {resource.ref: resource for resource in before.resources} if before else {}
    for resource in view.resources:
        if resource.ref not in known or _shown(known[resource.ref]) != _shown(resource):
            message = f"{resource.sync}, {resource.health.health.value}"
            detail = resource.problem or resource.health.message
            yield "resource", f"{message}: {detail}" if detail else message, resource.ref.path
    for ref in known.keys() - {resource.ref for resource in view.resources}:
        yield "resource", "gone", ref.path
    for ref, line in run.detected_drift:
        yield "drift", line, ref.path
    if run.record is not None:
        yield "sync", f"{run.record.outcome.value}: {len(run.record.steps)} steps ({run.record.trigger})", ""
