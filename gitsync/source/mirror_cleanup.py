"""Delete mirrors that no Application uses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from gitsync.runtime.clock import Periodic
from gitsync.source.repositories import Repositories

# seconds between checks; a mirror is deleted at the second check without an Application
_EVERY = 600.0
_log = logging.getLogger(__name__)


class MirrorCleanup(Periodic):
    """Delete mirrors that no Application has named for some minutes; ``urls`` returns those that Applications name."""

    def __init__(
        self, repositories: Repositories, urls: Callable[[], Collection[str]], *, every: float = _EVERY
    ) -> None:
        super().__init__("mirror-cleanup", self._clean_or_log, every, at_start=False)
        self._repositories = repositories
        self._urls = urls
        self._unused: frozenset[str] = frozenset()

    def clean(self) -> None:
        """Delete the mirrors that were unused at this check and at the one before."""
        unused = self._repositories.unused_mirrors(self._urls())
        for name in unused & self._unused:
            if self._repositories.remove_mirror(name):
                _log.info("deleted the mirror %s, which no Application uses", name)
        self._unused = unused

    def _clean_or_log(self) -> None:
        try:
            self.clean()
        except OSError as error:
            _log.warning("unused mirrors were not deleted: %s", error)
