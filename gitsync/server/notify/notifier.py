"""Follow the state of Applications and tell channels what changed, with a limit per Application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from gitsync.errors import GitsyncError
from gitsync.ports import Clock, StateReader
from gitsync.server.notify.notices import Notice, is_news, notice_of

_log = logging.getLogger(__name__)

_POLL = 0.5
"""Seconds that the notifier waits for an event before it checks delayed messages."""


class Channel(Protocol):
    """Where notices go."""

    interval: float
    """Seconds between two messages about one Application."""

    def wants(self, notice: Notice) -> bool:
        """Tell whether a notice is for this channel."""
        ...

    def send(self, notice: Notice) -> None:
        """Send a notice; raise a GitsyncError where that fails."""
        ...


@dataclass(slots=True)
class _Outbox:
    """The messages of a channel: when one was sent last about an Application, and what waits for its turn."""

    channel: Channel
    sent: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, Notice] = field(default_factory=dict)


class Notifier:
    """
    Send a notice when the verdict of an Application changed. Thread of its own; a failed message is logged and dropped.

    The states at the start cause no message. Only Applications that ``owns`` names are
    notified, so that one replica does.
    """

    def __init__(
        self, view: StateReader, clock: Clock, channels: Iterable[Channel], owns: Callable[[str], bool]
    ) -> None:
        self._view = view
        self._clock = clock
        self._outboxes = [_Outbox(channel) for channel in channels]
        self._owns = owns
        self._known: dict[str, Notice] = {}
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
        position = 0
        while not self._stopped.is_set():
            self._view.wait(position, _POLL)
            position = self._view.bounds[1]
            self.check()

    def check(self) -> None:
        """Compare the state of now with the last one, and send what is due."""
        for view in self._view.applications():
            notice = notice_of(view)
            if notice is None:
                continue
            last = self._known.get(view.key)
            self._known[view.key] = notice
            if is_news(last, notice) and self._owns(view.key):
                for box in self._outboxes:
                    if box.channel.wants(notice):
                        box.waiting[view.key] = notice
                    else:
                        box.waiting.pop(view.key, None)
        for box in self._outboxes:
            self._send_due(box)

    def _send_due(self, box: _Outbox) -> None:
        now = self._clock.monotonic()
        for key in list(box.waiting):
            if key in box.sent and now - box.sent[key] < box.channel.interval:
                continue
            notice = box.waiting.pop(key)
            box.sent[key] = now
            try:
                box.channel.send(notice)
            except GitsyncError as error:
                _log.warning("the notification %r was not sent: %s", notice.title, error)
