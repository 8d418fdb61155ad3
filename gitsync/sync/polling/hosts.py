"""GitHosts: limit the queries of each Git host, so that URLs that do not answer leave threads for the others."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from urllib.parse import urlsplit

from gitsync.errors import SourceDenied, SourceThrottled, SourceUnavailable
from gitsync.ports import Clock

_SILENCE = 10.0
"""Seconds without an answer after which a URL backs off."""
_REMEMBERED = 8192
"""URLs whose standing is known; more than there are repositories."""
_BACK_OFF = 30.0
"""Seconds for which the queries of a URL fail at once after one had no answer in time."""


class _Standing(IntEnum):
    """
    What the last query of a URL showed; the value is how many queries of a host such URLs may take at a time.

    A tenant who writes Applications can name many URLs of a host that hang: they leave two of its queries to new URLs,
    and one more to those that answer.
    """

    SILENT = 1
    UNKNOWN = 3
    PROVEN = 4


class GitHosts:
    """
    Count the queries of each host, and remember which URLs answer.

    Hosts of which no URL has answered, or none any more, share ``unproven`` of the threads; the others are for hosts
    that answer. Of one host, URLs that did not answer in time leave queries to those that do.
    """

    def __init__(self, clock: Clock, *, unproven: int) -> None:
        self._clock = clock
        self._unproven = unproven
        self._lock = threading.Lock()
        self._busy: dict[str, Counter[_Standing]] = {}
        # the standing at the claim: a query may change it
        self._claimed: dict[str, _Standing] = {}
        # of the URLs that were queried last; those of Applications that are gone make room
        self._standings: OrderedDict[str, _Standing] = OrderedDict()
        self._proven: Counter[str] = Counter()
        """How many URLs of a host answer."""
        self._silent_until: dict[str, float] = {}

    def claim(self, url: str) -> bool:
        """Claim a thread for a query of a URL; False when its share of the threads is in use."""
        host = _host_of(url)
        with self._lock:
            standing = self._standings.get(url, _Standing.UNKNOWN)
            busy = self._busy.get(host, Counter())
            # those of a worse standing count too, or all of them together would take more than the host has
            is_full = any(
                sum(busy[other] for other in _Standing if other <= limit) >= limit
                for limit in _Standing
                if limit >= standing
            )
            # a host with one URL that answers is proven, and its other URLs do not count among the unproven
            if is_full or (not self._proven[host] and self._unproven_queries() >= self._unproven):
                return False
            self._busy.setdefault(host, Counter())[standing] += 1
            self._claimed[url] = standing
            return True

    def _unproven_queries(self) -> int:
        return sum(busy.total() for host, busy in self._busy.items() if not self._proven[host])

    def release(self, url: str) -> None:
        """Give the thread of a query back."""
        host = _host_of(url)
        with self._lock:
            busy = self._busy[host]
            busy[self._claimed.pop(url)] -= 1
            if not busy.total():
                del self._busy[host]

    @contextmanager
    def query(self, url: str) -> Iterator[None]:
        """Query a URL in the body; raise SourceUnavailable at once for one that backs off."""
        began = self._clock.monotonic()
        # without the lock: a value that is replaced meanwhile costs one query, or one refusal
        rest = self._silent_until.get(url, began) - began
        if rest > 0:
            host = _host_of(url)
            raise SourceUnavailable(
                f"{host} did not answer within {_SILENCE:.0f} s; it is not queried for {rest:.0f} s", location=host
            )
        standing = _Standing.PROVEN
        try:
            yield
        except SourceUnavailable as error:
            if self._clock.monotonic() - began >= _SILENCE:
                standing = _Standing.SILENT
            # a connection that is refused at once holds no thread, but proves nothing of a server: what was known stays
            elif not isinstance(error, SourceDenied | SourceThrottled):
                standing = self._standings.get(url, _Standing.UNKNOWN)
            raise
        finally:
            self._ended(url, standing)

    def _ended(self, url: str, standing: _Standing) -> None:
        with self._lock:
            self._stand(url, standing)
            if standing is _Standing.SILENT:
                self._silent_until[url] = self._clock.monotonic() + _BACK_OFF
            else:
                self._silent_until.pop(url, None)
            if len(self._standings) > _REMEMBERED:
                oldest = next(iter(self._standings))
                self._stand(oldest, _Standing.UNKNOWN)
                del self._standings[oldest]
                self._silent_until.pop(oldest, None)

    def _stand(self, url: str, standing: _Standing) -> None:
        host = _host_of(url)
        was_proven = self._standings.get(url) is _Standing.PROVEN
        self._standings[url] = standing
        self._standings.move_to_end(url)
        # bool as a number: a URL counts once, however often it answers
        self._proven[host] += (standing is _Standing.PROVEN) - was_proven
        if not self._proven[host]:
            del self._proven[host]


def _host_of(url: str) -> str:
    # an scp-like address (git@host:path) has no netloc, so that each is a host of its own
    return urlsplit(url).netloc or url
