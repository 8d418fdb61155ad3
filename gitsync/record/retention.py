"""Retention: how long the audit is kept."""

from __future__ import annotations

import logging
from datetime import timedelta

from gitsync.errors import RecordUnavailable
from gitsync.ports import Clock, Records
from gitsync.runtime.clock import Periodic

# seconds between two checks
_EVERY = 600.0
_log = logging.getLogger(__name__)


class Retention(Periodic):
    """Drop audit records older than ``days`` and before the newest ``keep`` (0: none), at the start and repeatedly."""

    def __init__(self, records: Records, clock: Clock, *, days: int = 0, keep: int = 0) -> None:
        super().__init__("retention", self.trim, _EVERY)
        self._records = records
        self._clock = clock
        self._age = timedelta(days=days)
        self._keep = keep

    def trim(self) -> None:
        """Drop the records that are too old or too many now."""
        if not self._age and not self._keep:
            return
        try:
            now = self._clock.now()
            dropped = self._records.trim(now, before=now - self._age if self._age else None, keep=self._keep)
        # lost: nothing; the next check tries again
        except RecordUnavailable as error:
            _log.warning("the audit was not trimmed: %s", error)
        else:
            if dropped:
                _log.info("dropped %d audit records (kept: %s days, %s records)", dropped, *self._limits())

    def _limits(self) -> tuple[int | str, int | str]:
        return self._age.days or "all", self._keep or "all"
