"""A deadline for all that happens on a socket: the timeouts of sockets only limit the gap between two reads."""

from __future__ import annotations

import contextlib
import threading
from typing import Protocol

_BOTH_WAYS = 2
"""``socket.SHUT_RDWR``."""


class Connected(Protocol):
    """An open socket."""

    def shutdown(self, how: int, /) -> None:
        """End what is received, sent, or both."""


class Deadline:
    """End the connection that is watched last once the time is over; ``is_done`` is whether that happened."""

    def __init__(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._socket: Connected | None = None
        self.is_done = False

    def watch(self, connected: Connected) -> None:
        """End this connection instead of the one before; the time runs since the first call."""
        self._socket = connected
        if self._timer.ident is None:
            self._timer.start()
        if self.is_done:  # the time was over between two connections
            self._end()

    def cancel(self) -> None:
        """End no connection any more."""
        self._timer.cancel()

    def _end(self) -> None:
        self.is_done = True
        # the reading thread may have closed it in this moment
        with contextlib.suppress(OSError):
            if self._socket is not None:
                # shutdown, not close: it ends a read that another thread waits in
                self._socket.shutdown(_BOTH_WAYS)
