"""ElasticPool: threads for requests of which some take long."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

from gitsync.runtime.work_costs import tenant_of_work

P = ParamSpec("P")
T = TypeVar("T")

_Task = tuple[Future[Any], Callable[[], Any]]


class ElasticPool(Executor):
    """
    Run up to ``size`` tasks at a time; one that runs for more than ``patience`` seconds counts no more.

    So requests that the API server answers late do not delay others, up to ``most`` threads in all. The next task is
    of the tenant with the fewest that run, and of those in turn, so that thousands of one delay no other; the tasks of
    a tenant run in order.
    """

    def __init__(self, size: int, *, patience: float = 1.0, most: int = 0, name: str = "pool") -> None:
        self._size = size
        self._patience = patience
        self._most = most or 8 * size
        self._name = name
        self._changed = threading.Condition()
        self._tasks: dict[str, deque[_Task]] = {}
        """What waits, by tenant; a tenant with nothing is not in it."""
        self._running: Counter[str] = Counter()
        self._began: dict[Future[Any], float] = {}
        self._idle = 0
        self._threads: set[threading.Thread] = set()
        self._is_closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Run a call in a thread of the pool, in the context of the caller, once fewer than ``size`` quick ones run."""
        future: Future[T] = Future()
        context = copy_context()  # requests are counted for the Application of the caller, see ``counted_for``
        with self._changed:
            if self._is_closed:
                raise RuntimeError(f"the pool {self._name} is shut down")
            tasks = self._tasks.setdefault(tenant_of_work(), deque())
            tasks.append((future, lambda: context.run(fn, *args, **kwargs)))
            self._keep_spare()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more tasks; wait until those under way have ended, and those submitted unless they are cancelled."""
        with self._changed:
            self._is_closed = True
            while cancel_futures and self._tasks:
                for future, _ in self._tasks.popitem()[1]:
                    future.cancel()
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads if wait else ():
            thread.join()

    def _keep_spare(self) -> None:
        """Start a thread where tasks wait and none is idle: it takes one when another counts no more."""
        if self._tasks and not self._idle and len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads)}", daemon=True)
            self._threads.add(thread)
            self._idle += 1
            thread.start()

    def _work(self) -> None:
        while (taken := self._take()) is not None:
            tenant, task = taken
            del taken
            _run(*task)
            with self._changed:
                del self._began[task[0]]
                self._running -= Counter({tenant: 1})
                del task  # an idle thread keeps neither arguments nor result in memory
                # no other thread is woken: this one takes what may run in its place
                self._idle += 1
        with self._changed:
            self._idle -= 1
            self._threads.discard(threading.current_thread())
            self._changed.notify()  # at the end of the pool, the next one ends too

    def _take(self) -> tuple[str, _Task] | None:
        """Return the next task and its tenant, waiting until it may run; None when this thread is not needed."""
        with self._changed:
            while not (self._tasks and self._quick() < self._size):
                if not self._tasks and (self._is_closed or self._idle > self._size):
                    return None
                self._changed.wait(self._until_slow() if self._tasks else None)
            tenant = min(self._tasks, key=lambda name: self._running[name])
            tasks = self._tasks.pop(tenant)
            task = tasks.popleft()
            if tasks:
                # behind the others, of which the first one with as few is next
                self._tasks[tenant] = tasks
            self._running[tenant] += 1
            self._began[task[0]] = time.monotonic()
            self._idle -= 1
            self._keep_spare()
            if self._tasks and self._quick() >= self._size:
                self._changed.notify()  # one of the idle threads has to wait for the moment at which the next may run
            return tenant, task

    def _quick(self) -> int:
        now = time.monotonic()
        return sum(now - began < self._patience for began in self._began.values())

    def _until_slow(self) -> float:
        """Return the seconds until the next running task counts no more."""
        now = time.monotonic()
        waits = (began + self._patience - now for began in self._began.values())
        return min((seconds for seconds in waits if seconds > 0), default=0.0)


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    """Run a call and hand its result to its future, also a crash."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # also SystemExit: it belongs to the caller, who waits, and not to this thread
        future.set_exception(error)
