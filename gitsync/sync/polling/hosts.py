"""GitHosts: limit the queries of each Git host, so that hosts that do not answer leave threads for the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from gitsync.errors import SourceUnavailable
from gitsync.ports import Clock

_PER_HOST = 4
"""Queries of one host at a time."""
_SILENCE = 10.0
"""Seconds without an answer after which a host backs off."""
_BACK_OFF = 30.0
"""Seconds for which the queries of a host fail at once after one had no answer in time."""


class GitHosts:
    """
    Count the queries of each host, and remember which hosts answer.

    Hosts whose last query had no answer in time, and those that have not answered yet, share ``unproven`` of the
    threads; the others are for hosts that answer.
    """

    def __init__(self, clock: Clock, *, unproven: int) -> None:
        self._clock = clock
        self._unproven = unproven
        self._lock = threading.Lock()
        self._busy: Counter[str] = Counter()
        self._proven: set[str] = set()
        self._silent_until: dict[str, float] = {}

    def claim(self, url: str) -> bool:
        """Claim a thread for a query of a URL's host; False when its share of the threads is in use."""
        host = _host_of(url)
        with self._lock:
            is_full = self._busy[host] >= _PER_HOST
            if not is_full and host not in self._proven:
                is_full = sum(self._busy[host] for host in self._busy if host not in self._proven) >= self._unproven
            if not is_full:
                self._busy[host] += 1
            return not is_full

    def release(self, url: str) -> None:
        """Give the thread of a query back."""
        host = _host_of(url)
        with self._lock:
            self._busy[host] -= 1
            if not self._busy[host]:
                del self._busy[host]

    @contextmanager
    def query(self, url: str) -> Iterator[None]:
        """Query a URL in the body; raise SourceUnavailable at once for a host that backs off."""
        host = _host_of(url)
        began = self._clock.monotonic()
        rest = self._silent_until.get(host, began) - began
        if rest > 0:
            raise SourceUnavailable(
                f"{host} did not answer within {_SILENCE:.0f} s; it is not queried for {rest:.0f} s", location=host
            )
        is_silent = False
        try:
            yield
        except SourceUnavailable:
            is_silent = self._clock.monotonic() - began >= _SILENCE
            raise
        finally:
            self._ended(host, is_silent=is_silent)

    def _ended(self, host: str, *, is_silent: bool) -> None:
        with self._lock:
            if is_silent:
                self._silent_until[host] = self._clock.monotonic() + _BACK_OFF
                self._proven.discard(host)
            else:
                self._proven.add(host)


def _host_of(url: str) -> str:
    return urlsplit(url).netloc or url
