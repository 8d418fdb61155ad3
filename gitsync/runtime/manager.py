"""Manager: start parts in order, stop them in reverse."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Protocol

_log = logging.getLogger(__name__)


class Runnable(Protocol):
    """Something that runs beside others."""

    def start(self) -> None:
        """Start and return."""
        ...

    def stop(self) -> None:
        """Stop and return when stopped; safe to call when not started."""
        ...


class Manager:
    """Run parts: when one fails to start, those before it are stopped again and the failure is raised."""

    def __init__(self, parts: list[Runnable]) -> None:
        self._parts = parts
        self._started: list[Runnable] = []

    def start(self) -> None:
        """Start the parts in order."""
        for part in self._parts:
            try:
                part.start()
            except BaseException:
                with suppress(Exception):
                    part.stop()
                self.stop()
                raise
            self._started.append(part)

    def stop(self) -> None:
        """Stop what was started, last first; a part that fails to stop does not keep the others running."""
        while self._started:
            part = self._started.pop()
            try:
                part.stop()
            except Exception:
                _log.exception("%s did not stop cleanly", type(part).__name__)
