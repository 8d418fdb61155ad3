"""What users may request of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class SyncRequests(Protocol):
    """
    What users may request of the engine; a controller carries it out later.

    Called by the dashboard, the API and webhooks.
    """

    def request_sync(self, key: str, by: str) -> bool:
        """
        Request a poll of Git and a sync now, in the name of a user; False for an unknown application.

        It also syncs where automation is off, and in windows that allow manual syncs.
        """
        ...

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Request a poll of the repositories with these URLs, after a push; return how many Applications have one."""
        ...

    def poll_now(self, keys: Iterable[str]) -> None:
        """Request a reconcile of these Applications now, with a poll of Git."""
        ...

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` of an Application and nothing else; False for an unknown one."""
        ...

    def queue_length(self) -> int:
        """Return how many applications wait for a worker."""
        ...
