"""Controller: worker threads that turn the answer of one reconcile into one action on the queue; Manager runs them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from gitsync.errors import OUTAGE_PAUSE, TerminalError, TransientError
from gitsync.runtime.workqueue import WorkQueue

K = TypeVar("K", bound=Hashable)

_log = logging.getLogger(__name__)


class Controller(Generic[K]):
    """
    Run ``reconcile(key)`` for keys of the queue in ``workers`` threads.

    A reconcile returns the seconds until the next one, or None. A TransientError is retried with backoff, or after the
    delay that the server asked for; a TerminalError waits for a new input; any other error is a bug, is logged with
    its traceback, and retried with backoff.
    """

    def __init__(
        self, name: str, queue: WorkQueue[K], reconcile: Callable[[K], float | None], *, workers: int = 4
    ) -> None:
        self._name = name
        self._queue = queue
        self._reconcile = reconcile
        self._workers = workers
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the workers."""
        self._threads = [
            threading.Thread(target=self._work, name=f"{self._name}-{index}", daemon=True)
            for index in range(self._workers)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Close the queue and wait until work under way has ended, at most ``timeout`` seconds a worker."""
        self._queue.close()
        for thread in self._threads:
            thread.join(timeout)

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            try:
                self._once(key)
            finally:
                self._queue.done(key)

    def _once(self, key: K) -> None:
        try:
            after = self._reconcile(key)
        except TransientError as error:
            delay = error.retry_after
            if delay is None:
                delay = self._queue.retry(key, OUTAGE_PAUSE)
            else:  # a delay that the server asked for does not count as a failure of the key
                self._queue.add_after(key, delay)
            _log.info("%s %s: %s; again in %.1f s", self._name, key, error, delay)
        except TerminalError as error:
            self._queue.forget(key)
            _log.warning("%s %s: %s", self._name, key, error)
        except Exception:  # a defect in one key's reconcile must not end the worker of all others
            _log.exception("%s %s failed; again in %.1f s", self._name, key, self._queue.retry(key))
        else:
            self._queue.forget(key)
            _log.debug("reconcile ended", extra={"controller": self._name, "key": str(key), "again_in": after})
            if after is not None:
                self._queue.add_after(key, after)


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
                with suppress(Exception):  # it may have started in part, and the first error is the one to report
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
            except Exception:  # the other parts have to stop too
                _log.exception("%s did not stop cleanly", type(part).__name__)
