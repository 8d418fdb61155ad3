"""Follow the state of Applications and tell channels what changed, with a limit per Application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from gitsync.errors import GitsyncError
from gitsync.ports import Clock, StateEvent, StateReader
from gitsync.server.notify.notices import KINDS, Notice, happened, news, notices_of

_log = logging.getLogger(__name__)

_POLL = 0.5
"""Seconds that the notifier waits for an event before it checks delayed messages."""


class NoticeChannel(Protocol):
    """Where notices go."""

    interval: float
    """Seconds between two messages about one Application."""

    def wants(self, notice: Notice) -> bool:
        """Tell whether a notice is for this channel."""
        ...

    def send(self, notice: Notice) -> None:
        """Send a notice; raise a GitsyncError where that fails."""
        ...


_Topic = tuple[str, str, str]
"""An Application; of what happens to single objects, also the kind and the object: no other message replaces it."""


@dataclass(slots=True)
class _Outbox:
    """The messages of a channel: when one was sent last about a topic, and what waits for its turn."""

    channel: NoticeChannel
    sent: dict[_Topic, float] = field(default_factory=dict)
    waiting: dict[_Topic, Notice] = field(default_factory=dict)

    def replace(self, key: str, notices: Iterable[Notice], fresh: Iterable[Notice]) -> None:
        """Drop the states of an Application that are not true any more, and add those that are new and wanted."""
        true = {(key, notice.state, "") for notice in notices}
        for stale in [topic for topic in self.waiting if topic[0] == key and topic[1] in KINDS and topic not in true]:
            del self.waiting[stale]
        self.waiting |= {(key, notice.state, ""): notice for notice in fresh if self.channel.wants(notice)}


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
            if fresh and self._owns(view.key):
                for box in self._outboxes:
                    box.replace(view.key, notices, fresh)
        for box in self._outboxes:
            self._send_due(box)

    def _note(self, event: StateEvent) -> None:
        """Keep the notice of what happened; drift is reported by each reconcile, and is news once."""
        notice = happened(event)
        if notice is None or not self._owns(event.application):
            return
        topic = (event.application, event.ref)
        if event.kind == "drift" and self._drifted.get(topic) == event.message:
            return
        if event.kind == "drift":
            self._drifted[topic] = event.message
        # the same change is news again after its repair
        elif event.kind == "healed":
            self._drifted.pop(topic, None)
        for box in self._outboxes:
            if box.channel.wants(notice):
                box.waiting[event.application, notice.kind, event.ref] = notice

    def _send_due(self, box: _Outbox) -> None:
        now = self._clock.monotonic()
        for topic in list(box.waiting):
            # the states of an Application share one interval, as one may only replace another
            sender = (topic[0], "", "") if topic[1] in KINDS else topic
            if sender in box.sent and now - box.sent[sender] < box.channel.interval:
                continue
            notice = box.waiting.pop(topic)
            # before the attempt: a channel that fails is not tried again before its interval
            box.sent[sender] = now
            try:
                box.channel.send(notice)
            except GitsyncError as error:
                _log.warning("the notification %r was not sent: %s", notice.title, error)
