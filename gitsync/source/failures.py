"""Recent failures of a Git server: Applications share them as they share answers, and so make no more requests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator

from gitsync.errors import InvalidInput, SourceUnavailable

_KEPT = 3600.0
"""Seconds after which a failure is dropped; no interval of a shared poll is longer in practice."""


class RecentFailures:
    """The last failure of each request, by what was requested and with which credentials; ``clock`` is monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[Hashable, tuple[float, SourceUnavailable | InvalidInput]] = {}

    @contextlib.contextmanager
    def shared(self, request: Hashable, max_age: float) -> Iterator[None]:
        """Make a request, unless it failed at most ``max_age`` seconds ago: then raise that error again."""
        now = self._clock()
        failed_at, error = self._failures.get(request, (0.0, None))
        if error is not None and now - failed_at < max_age:
            raise _copy(error)
        try:
            yield
        except (SourceUnavailable, InvalidInput) as error:
            now = self._clock()
            self._failures = {key: value for key, value in self._failures.items() if now - value[0] < _KEPT}
            self._failures[request] = (now, _copy(error))
            raise
        self._failures.pop(request, None)


def _copy(error: SourceUnavailable | InvalidInput) -> SourceUnavailable | InvalidInput:
    """Return an equal error without the frames of the failed request, which an Application may complete."""
    return type(error)(error.message, location=error.location, hint=error.hint)
