"""The latest view of each Application, and the events that follow from their differences."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from gitsync.objects.record import Outcome, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView, ResourceView, StateEvent

_KEPT_EVENTS = 2000
"""Events that are kept for pages that reconnect; one that was away longer reads everything again."""


class _Happened(NamedTuple):
    """A StateEvent without what the views add to it."""

    kind: str
    message: str
    ref: str = ""
    states: tuple[str, ...] = ()


class Views:
    """
    The latest view of each Application and a ring buffer of events. Any thread may call it.

    An Application whose cluster cannot be observed keeps its last resources, while its status is Unknown.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._applications: dict[str, ApplicationView] = {}
        self._drift: dict[str, frozenset[tuple[ObjectRef, str]]] = {}
        """The drift of the last reconcile of each Application: only what is new is an event."""
        self._events: deque[StateEvent] = deque(maxlen=_KEPT_EVENTS)
        self._last = 0

    def publish(
        self,
        view: ApplicationView,
        drift: Iterable[tuple[ObjectRef, str]] = (),
        record: SyncRecord | None = None,
    ) -> None:
        """
        Store the view of a reconcile, and emit events for what differs from the previous one.

        The time of the view stays that of the last reconcile that ``conclude`` was called for.
        """
        with self._changed:
            previous = self._applications.get(view.key)
            now = view.seen
            # an attempt that fails observes nothing: counted, it would make an outage look like a fresh state
            view = replace(view, seen=previous.seen) if previous is not None else view
            # nothing was observed: the objects that were seen last are better than none
            if view.plan is None and previous is not None:
                view = replace(view, resources=previous.resources, plan=previous.plan)
            self._store(view, previous, now, self._news(view.key, drift, (record,) if record is not None else ()))

    def conclude(self, key: str, now: datetime) -> None:
        """Store when an Application was observed and its status written; one that is gone meanwhile is ignored."""
        with self._changed:
            view = self._applications.get(key)
            if view is not None:
                self._applications[key] = replace(view, seen=now)

    def publish_remote(
        self,
        view: ApplicationView,
        drift: Iterable[tuple[ObjectRef, str]] = (),
        records: Collection[SyncRecord] = (),
    ) -> None:
        """
        Store the view of an Application that another replica reconciles, and emit the events that it emits there.

        ``records`` are those of the syncs since the last call, and ``drift`` includes what they restored.
        """
        with self._changed:
            previous = self._applications.get(view.key)
            if previous is not None and previous.resources and not view.resources:
                previous = None  # from when this replica reconciled it: its objects are not gone
            self._store(view, previous, view.seen, self._news(view.key, drift, records))

    def report(self, key: str, kind: str, ref: ObjectRef, message: str, now: datetime) -> None:
        """Emit an event about an object of an Application that no reconcile shows."""
        with self._changed:
            if key in self._applications:
                self._emit(now, key, _Happened(kind, message, ref.path))

    def remove(self, key: str, now: datetime) -> None:
        """Remove a deleted Application."""
        with self._changed:
            self._drift.pop(key, None)
            if self._applications.pop(key, None) is not None:
                self._emit(now, key, _Happened("removed", "is gone"))

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
            # the oldest first: a reader that is behind continues from the last id it got
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

    @property
    def kept_events(self) -> int:
        """How many events are kept."""
        return len(self._events)

    def _store(
        self,
        view: ApplicationView,
        previous: ApplicationView | None,
        now: datetime,
        events: Iterable[_Happened] = (),
    ) -> None:
        """Store a view; one that shows the same as the previous one keeps its sequence."""
        if previous is not None and _is_equal_view(previous, view):
            # the time of the observation is new although nothing else is, and no open page has to redraw
            self._applications[view.key] = replace(view, sequence=previous.sequence)
            return
        self._applications[view.key] = replace(view, sequence=self._last + 1)
        for event in (*_differences(previous, view), *events):
            self._emit(now, view.key, event)

    def _news(
        self, key: str, drift: Iterable[tuple[ObjectRef, str]], records: Collection[SyncRecord]
    ) -> tuple[_Happened, ...]:
        """Return an event for drift that was not known before, and for each sync; called under the lock."""
        known = self._drift.get(key, frozenset())
        current = frozenset(drift)
        # after a sync or a repair the same drift is another one
        self._drift[key] = frozenset() if records else current
        new = (_Happened("drift", line, ref.path) for ref, line in sorted(current - known))
        return (*new, *(event for record in records for event in _sync_events(record)))

    def _emit(self, time: datetime, application: str, event: _Happened) -> None:
        self._last += 1
        self._events.append(StateEvent(self._last, time, application, *event))
        # under the condition's lock, which every caller holds
        self._changed.notify_all()


def _is_equal_view(previous: ApplicationView, view: ApplicationView) -> bool:
    return (
        previous.status == view.status
        and len(previous.resources) == len(view.resources)
        and all(map(_is_equal_resource, previous.resources, view.resources))
    )


def _is_equal_resource(previous: ResourceView, resource: ResourceView) -> bool:
    return previous is resource or _view_key(previous) == _view_key(resource)


def _view_key(resource: ResourceView) -> tuple[object, ...]:
    return (
        resource.ref,
        resource.sync,
        resource.health,
        resource.problem,
        resource.change.differences,
        resource.foreign,
        resource.running,
    )


def _differences(previous: ApplicationView | None, view: ApplicationView) -> Iterator[_Happened]:
    """Yield an event for each difference between two views."""
    status = view.status
    old = previous.status if previous else {}
    if any(status.get(name) != old.get(name) for name in ("sync", "health", "phase", "revision", "conditions")):
        states = (status.get(name) for name in ("phase", "sync", "health"))
        yield _Happened("application", "", states=tuple(str(state) for state in states if state))
    # by identity first: resources that were not rebuilt need no comparison of their fields
    shown, now_shown = (
        {id(resource) for resource in shown_view.resources} if shown_view else set() for shown_view in (previous, view)
    )
    known = (
        {resource.ref: resource for resource in previous.resources if id(resource) not in now_shown} if previous else {}
    )
    changed = [resource for resource in view.resources if id(resource) not in shown]
    for resource in changed:
        if resource.ref not in known or not _is_equal_resource(known[resource.ref], resource):
            message = resource.problem or resource.health.message
            yield _Happened("resource", message, resource.ref.path, (resource.sync, resource.health.health.value))
    for ref in known.keys() - {resource.ref for resource in changed}:
        yield _Happened("resource", "gone", ref.path)


def _sync_events(record: SyncRecord) -> Iterator[_Happened]:
    count = len(record.steps)
    message = f"{count} {'change' if count == 1 else 'changes'} ({record.trigger})"
    yield _Happened("sync", message, states=(record.outcome.value, record.risk))
    for step in record.steps if record.trigger == "drift" else ():
        kind = "healed" if step.outcome is Outcome.SUCCEEDED else "heal-failed"
        yield _Happened(kind, step.message or step.reason, step.ref, states=(record.risk,))
