"""Follow the state of Applications and tell channels what changed, with a limit per Application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from gitsync.errors import GitsyncError
from gitsync.ports import Clock, StateEvent, StateReader
from gitsync.server.notify.notices import (
    KINDS,
    RECOVERED,
    Notice,
    digest,
    happened,
    news,
    notices_of,
    recovered,
    together,
)

_log = logging.getLogger(__name__)

_GROUPED = 3
"""Applications with one cause from which on there is one message for all of them."""
_BURST = 5
"""Messages of a channel in one interval from which on the next ones are one digest."""
_LASTING = ("failed", "degraded", "drifted")
"""Kinds whose end is a message too."""
_POLL = 0.5
"""Seconds that the notifier waits for an event before it checks delayed messages."""


class NoticeChannel(Protocol):
    """Where notices go."""

    interval: float
    """Seconds between two messages about one Application."""
    settle: float
    """Seconds that a state has to last before it is a message; those of one cause become one message."""
    groups: bool
    """Whether messages of one cause become one, and many messages a digest."""

    def wants(self, notice: Notice) -> bool:
        """Tell whether a notice is for this channel."""
        ...

    def send(self, notice: Notice) -> None:
        """Send a notice; raise a GitsyncError where that fails."""
        ...


_Topic = tuple[str, str, str]
"""An Application; of what happens to single objects, also the kind and the object: no other message replaces it."""


class _Pending(NamedTuple):
    """A notice that waits, and since when."""

    notice: Notice
    since: float


@dataclass(slots=True)
class _Outbox:
    """The messages of a channel: when one was sent last about a topic, and what waits for its turn."""

    channel: NoticeChannel
    sent: dict[_Topic, float] = field(default_factory=dict)
    waiting: dict[_Topic, _Pending] = field(default_factory=dict)
    reported: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The states of each Application that were reported, and whose end was not."""
    companions: dict[str, frozenset[str]] = field(default_factory=dict)
    """The Applications that one message reported with each of them, whose end it waits for."""
    causes: dict[object, float] = field(default_factory=dict)
    """When the last message about each common cause was sent."""
    burst: list[float] = field(default_factory=list)
    """When the messages of the last interval were sent."""
    digested: float | None = None
    """When the last digest was sent."""

    def knows(self, key: str) -> bool:
        """Return whether a state of an Application waits, or was reported and may have ended."""
        return key in self.reported or any(topic[0] == key for topic in self.waiting)

    def replace(self, key: str, notices: Iterable[Notice], fresh: Iterable[Notice], now: float) -> None:
        """Drop the states of an Application that are not true any more, and add those that are new and wanted."""
        true = {(key, notice.state, "") for notice in notices}
        for stale in [topic for topic in self.waiting if topic[0] == key and topic[1] in KINDS and topic not in true]:
            del self.waiting[stale]
        for notice in notices:
            # what is seen first of an outage, such as a broken connection, may not be its cause
            if (pending := self.waiting.get((key, notice.state, ""))) is not None:
                self.waiting[key, notice.state, ""] = _Pending(notice, pending.since)
        reported = self.reported.get(key, ())
        returned: tuple[str, ...] = ()
        if any(notice.kind in _LASTING for notice in notices):
            # what comes back before its end was reported is not news
            returned = reported if self.waiting.pop((key, RECOVERED, ""), None) is not None else ()
        elif reported:
            self.add((key, RECOVERED, ""), recovered(key, reported), now)
        for notice in fresh:
            if notice.state not in returned:
                self.add((key, notice.state, ""), notice, now)

    def add(self, topic: _Topic, notice: Notice, now: float) -> None:
        """Let a notice wait; one that waits already keeps its time."""
        if self.channel.wants(notice):
            earlier = self.waiting.get(topic)
            self.waiting[topic] = _Pending(notice, earlier.since if earlier is not None else now)

    def send_due(self, now: float) -> None:
        """Send what is due: many messages as one digest, which the next ones wait for an interval after."""
        messages = self._due(now)
        self.burst = [sent for sent in self.burst if now - sent < self.channel.interval]
        if not self.channel.groups or len(self.burst) + len(messages) <= _BURST:
            for topics in messages:
                self.burst.append(now)
                self._send(self._taken(topics, now))
            return
        if self.digested is None or now - self.digested >= self.channel.interval:
            self.digested = now
            notices = [self._taken(topics, now) for topics in messages]
            self._send(digest(notices) if len(notices) > 1 else notices[0])

    def _taken(self, topics: list[_Topic], now: float) -> Notice:
        """Remove some topics from those that wait, and return the message about them."""
        notices = [self._take(topic, now) for topic in topics]
        if len(notices) == 1:
            return notices[0]
        self.causes[notices[0].cause] = now
        if notices[0].kind in _LASTING:
            keys = frozenset(key for key, _, _ in topics)
            self.companions.update(dict.fromkeys(keys, keys))
        return together(notices)

    def _send(self, notice: Notice) -> None:
        try:
            self.channel.send(notice)
        except GitsyncError as error:
            _log.warning("the notification %r was not sent: %s", notice.title, error)

    def _due(self, now: float) -> list[list[_Topic]]:
        """Return the topics to send now, those of one message together."""
        # an outage reaches Applications one by one: the late ones wait while the message of the first ones is new
        self.causes = {cause: sent for cause, sent in self.causes.items() if now - sent < self.channel.interval}
        ready = [topic for topic, pending in self.waiting.items() if self._is_due(topic, pending, now)]
        causes = {self.waiting[topic].notice.cause for topic in ready} - {None}
        messages: dict[object, list[_Topic]] = {}
        for topic, pending in self.waiting.items():
            cause = pending.notice.cause
            # the others with the cause come along before their time, or each would be a message of its own
            if self.channel.groups and cause in causes and not self._is_limited(topic, now):
                messages.setdefault(cause, []).append(topic)
            elif topic in ready:
                messages[topic] = [topic]
        few = [cause for cause, topics in messages.items() if len(topics) < _GROUPED and cause in causes]
        single = [[topic] for cause in few for topic in messages.pop(cause) if topic in ready]
        return [*single, *messages.values()]

    def _is_due(self, topic: _Topic, pending: _Pending, now: float) -> bool:
        lasts = now - pending.since >= self.channel.settle or topic[1] not in (*KINDS, RECOVERED)
        if topic[1] == RECOVERED and not self._has_ended(topic[0]):
            # an outage ends one by one, as retries are due: its end is one message, unless one of them stays
            lasts = now - pending.since >= self.channel.interval
        return lasts and not self._is_limited(topic, now) and pending.notice.cause not in self.causes

    def _has_ended(self, key: str) -> bool:
        """Return whether all that were reported with an Application have recovered too."""
        return all(
            companion not in self.reported or (companion, RECOVERED, "") in self.waiting
            for companion in self.companions.get(key, ())
        )

    def _is_limited(self, topic: _Topic, now: float) -> bool:
        sender = _sender(topic)
        return sender in self.sent and now - self.sent[sender] < self.channel.interval

    def _take(self, topic: _Topic, now: float) -> Notice:
        """Return a notice that is sent now."""
        key, state, _ = topic
        # before the attempt: a channel that fails is not tried again before its interval
        self.sent[_sender(topic)] = now
        notice = self.waiting.pop(topic).notice
        if state == RECOVERED:
            self.reported.pop(key, None)
            self.companions.pop(key, None)
        elif notice.kind in _LASTING and topic[1] in KINDS:
            self.reported[key] = tuple(dict.fromkeys((*self.reported.get(key, ()), state)))
        return notice


def _sender(topic: _Topic) -> _Topic:
    # the states of an Application share one interval, as one may only replace another
    return (topic[0], "", "") if topic[1] in (*KINDS, RECOVERED) else topic


class Notifier:
    """
    Send a notice when the verdict of an Application changed. Thread of its own; a failed message is logged and dropped.

    The states at the start cause no message. Only Applications that ``owns`` names are
    notified, so that one replica does.
    """

    def __init__(
        self, view: StateReader, clock: Clock, channels: Iterable[NoticeChannel], owns: Callable[[str], bool]
    ) -> None:
        self._view = view
        self._clock = clock
        self._outboxes = [_Outbox(channel) for channel in channels]
        self._owns = owns
        self._known: dict[str, tuple[Notice, ...]] = {}
        self._drifted: dict[tuple[str, str], str] = {}
        """The last message about each object that others changed."""
        self._budgets: dict[tuple[str, str], str] = {}
        """The last reported state of the budget of each Agent that is near or beyond it."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether the states at the start are known."""
        return bool(self._known)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the message under way."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        position = self._view.bounds[1]  # what happened before the start is not reported
        while not self._stopped.is_set():
            self._view.wait(position, _POLL)
            events = self._view.events(position)
            position = events[-1].id if events else position
            self.check(events)

    def check(self, events: Iterable[StateEvent] = ()) -> None:
        """Compare the state of now with the last one, add what happened since, and send what is due."""
        for event in events:
            self._note(event)
        for view in self._view.applications():
            notices = notices_of(view)
            # the states before the transition remain known: to return to them is not news
            if not notices:
                continue
            fresh = list(news(self._known.get(view.key), notices))
            # also for an Application of another replica: when this one takes it over, its state is not news
            self._known[view.key] = notices
            boxes = [box for box in self._outboxes if fresh or box.knows(view.key)]
            if boxes and self._owns(view.key):
                for box in boxes:
                    box.replace(view.key, notices, fresh, self._clock.monotonic())
        for box in self._outboxes:
            box.send_due(self._clock.monotonic())

    def _note(self, event: StateEvent) -> None:
        """Keep the notice of what happened; drift is reported by each reconcile, and is news once."""
        topic = (event.application, event.ref)
        # a resource is reported with each change of it, and the state of its budget is news once
        last = self._budgets.pop(topic, "") if event.kind == "resource" else ""
        notice = happened(event)
        if notice is None or not self._owns(event.application):
            return
        if notice.kind == "budget":
            self._budgets[topic] = notice.state
            if notice.state == last:
                return
        if event.kind == "drift" and self._drifted.get(topic) == event.message:
            return
        if event.kind == "drift":
            self._drifted[topic] = event.message
        # the same change is news again after its repair
        elif event.kind == "healed":
            self._drifted.pop(topic, None)
        for box in self._outboxes:
            box.add((event.application, notice.kind, event.ref), notice, self._clock.monotonic())
