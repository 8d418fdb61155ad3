"""The clock of the machine, a deadline for connections, and a task that runs again and again in a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class SystemClock:
    """Implement ``gitsync.ports.Clock`` by the machine's time."""

    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        return time.monotonic()


_log = logging.getLogger(__name__)


class Periodic:
    """
    Run ``task`` at the start, or after the first interval, and then ``every`` seconds after its last end.

    An exception of the task is logged, and the task runs again after the interval.
    """

    def __init__(self, name: str, task: Callable[[], None], every: float, *, at_start: bool = True) -> None:
        self._name = name
        self._task = task
        self._every = every
        self._at_start = at_start
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread after a running task has ended; safe to call when not started."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        if not self._at_start and self._stopped.wait(self._every):
            return
        while True:
            try:
                self._task()
            except Exception:  # a defect in one run must not end the later ones
                _log.exception("%s failed, and runs again in %.0f s", self._name, self._every)
            if self._stopped.wait(self._every):
                return


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
