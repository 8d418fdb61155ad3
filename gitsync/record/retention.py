"""Retention: how long the audit is kept."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from gitsync.errors import RecordUnavailable
from gitsync.ports import Clock, Records

_EVERY = 3600.0
_log = logging.getLogger(__name__)


class Retention:
    """Drop audit records that are older than ``days``, at the start and every hour."""

    def __init__(self, records: Records, clock: Clock, days: int) -> None:
        self._records = records
        self._clock = clock
        self._age = timedelta(days=days)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the cut under way."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            try:
                now = self._clock.now()
                dropped = self._records.trim(now - self._age, now)
            except RecordUnavailable as error:
                _log.warning("the audit was not trimmed: %s", error)
            else:
                if dropped:
                    _log.info("dropped %d audit records older than %d days", dropped, self._age.days)
            if self._stopped.wait(_EVERY):
                return
