"""GroupCommit: writes of several threads share one transaction, since each commit waits for the disk."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Write:
    """A write that waits for a transaction, and its result."""

    act: Callable[[Connection], Any]
    result: Future[Any] = field(default_factory=Future)


class GroupCommit:
    """
    Run writes in transactions; ``run`` returns once its write is durable.

    While one transaction is committed, the writes of other threads wait; the next transaction takes all of them. Where
    it fails, each of its writes is run again alone, so that one of them fails no other.
    """

    def __init__(self, writing: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._writing = writing
        self._turn = threading.Lock()
        self._waiting: deque[_Write] = deque()

    def run(self, act: Callable[[Connection], T]) -> T:
        """Return the result of a write; raise its error."""
        mine = _Write(act)
        self._waiting.append(mine)
        with self._turn:
            if not mine.result.done():
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        result: T = mine.result.result()
        return result

    def _commit(self, writes: Sequence[_Write]) -> None:
        try:
            with self._writing() as connection:
                results = [write.act(connection) for write in writes]
        except Exception as error:
            if len(writes) == 1:
                writes[0].result.set_exception(error)
            else:
                for write in writes:
                    self._commit([write])
            return
        for write, result in zip(writes, results, strict=True):
            write.result.set_result(result)
