"""Leader: one active replica, elected by a lease that somebody else stores."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Protocol

from gitsync.errors import GitsyncError

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Lease:
    """Who holds a lease, and a text that changes with every renewal."""

    holder: str
    renewal: str


class LeaseStore(Protocol):
    """Keep one lease, with compare and set."""

    def read(self) -> Lease | None:
        """Return the lease as it is now, None when nobody ever held it."""
        ...

    def take(self, seen: Lease | None, holder: str, seconds: float) -> Lease:
        """Write the holder if the lease is still the one that was seen; raise Conflict otherwise."""
        ...

    def release(self, seen: Lease) -> None:
        """Give the lease up, so that another need not wait."""
        ...


class Leader:
    """
    Hold a lease, and say whether this replica may write.

    ``is_leading`` is True only while the last renewal is younger than ``renew_deadline``, by our own monotonic
    clock: a paused process finds it False before it writes. Another's lease is taken over only after it stayed
    unchanged for ``duration`` of our own seconds, so clocks need not agree. ``on_change`` is told of both turns.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        duration: float = 15.0,
        renew_deadline: float = 10.0,
        period: float = 2.0,
        monotonic: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random,
        on_change: Callable[[bool], None] = lambda leading: None,
    ) -> None:
        self._store = store
        self._identity = identity
        self._duration = duration
        self._renew_deadline = renew_deadline
        self._period = period
        self._monotonic = monotonic
        self._random = random
        self.on_change = on_change
        self._held: Lease | None = None
        self._renewed = float("-inf")
        self._seen: Lease | None = None
        self._seen_at = float("-inf")
        self._told = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader", daemon=True)

    @property
    def is_leading(self) -> bool:
        """Whether this replica may write now."""
        return self._held is not None and self._monotonic() - self._renewed < self._renew_deadline

    def start(self) -> None:
        """Start taking part in the election."""
        self._thread.start()

    def stop(self) -> None:
        """Leave, and release the lease when it is ours."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(self._renew_deadline)
        held, self._held = self._held, None
        if held is not None:
            try:
                self._store.release(held)
            except GitsyncError as error:
                _log.info("lease not released: %s", error)
        self._tell()

    def step(self) -> None:
        """Take part once: renew our lease, or take a free or abandoned one."""
        began = self._monotonic()
        try:
            seen = self._store.read()
            if seen != self._seen:
                self._seen, self._seen_at = seen, began
            if self._may_take(seen):
                self._held = self._seen = self._store.take(seen, self._identity, self._duration)
                self._renewed = self._seen_at = began
            else:
                self._held = None
        except GitsyncError as error:
            _log.info("lease: %s", error)
        self._tell()

    def _may_take(self, seen: Lease | None) -> bool:
        if seen is None or not seen.holder or seen.holder == self._identity:
            return True
        return self._monotonic() - self._seen_at >= self._duration

    def _tell(self) -> None:
        if self._told != self.is_leading:
            self._told = self.is_leading
            self.on_change(self._told)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.step()
            self._stop.wait(self._period * (1 + 0.2 * self._random()))
