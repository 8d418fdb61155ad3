"""ApplicationSets, for dashboard and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from gitsync.objects.manifest import Manifest


class ApplicationSets(Protocol):
    """
    The ApplicationSets as they were last seen, from memory.

    Called by the dashboard for every view, and by webhooks.
    """

    def sets(self) -> tuple[Manifest, ...]:
        """Return all sets with their status."""
        ...

    def repository_changed(self, is_it: Callable[[str], bool]) -> int:
        """Poll the repositories with these URLs that generators read, now; return how many sets read one."""
        ...
