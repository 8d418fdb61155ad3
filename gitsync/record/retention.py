"""Retention: how long the audit is kept."""

from __future__ import annotations

import logging
from datetime import timedelta

from gitsync.errors import RecordUnavailable
from gitsync.ports import Clock, Records
from gitsync.runtime.periodic import Periodic

_EVERY = 3600.0
_log = logging.getLogger(__name__)


class Retention(Periodic):
    """Drop audit records that are older than ``days``, at the start and every hour."""

    def __init__(self, records: Records, clock: Clock, days: int) -> None:
        super().__init__("retention", self.trim, _EVERY)
        self._records = records
        self._clock = clock
        self._age = timedelta(days=days)

    def trim(self) -> None:
        """Drop the records that are too old now."""
        try:
            now = self._clock.now()
            dropped = self._records.trim(now - self._age, now)
        except RecordUnavailable as error:
            _log.warning("the audit was not trimmed: %s", error)
        else:
            if dropped:
                _log.info("dropped %d audit records older than %d days", dropped, self._age.days)
