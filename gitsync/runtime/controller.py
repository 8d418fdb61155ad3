"""Controller: worker threads that turn the answer of one reconcile into one action on the queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from gitsync.errors import TerminalError, TransientError
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
            delay = error.retry_after if error.retry_after is not None else None
            if delay is None:
                delay = self._queue.retry(key)
            else:
                self._queue.add_after(key, delay)
            _log.info("%s %s: %s; again in %.1f s", self._name, key, error, delay)
        except TerminalError as error:
            self._queue.forget(key)
            _log.warning("%s %s: %s", self._name, key, error)
        except Exception:
            _log.exception("%s %s failed; again in %.1f s", self._name, key, self._queue.retry(key))
        else:
            self._queue.forget(key)
            if after is not None:
                self._queue.add_after(key, after)
