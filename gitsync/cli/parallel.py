"""
Map a function over items in forked processes, as many as there are processors.

``ProcessPoolExecutor`` would take longer to start than such a build takes: see docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, TypeAlias

TaskOutput: TypeAlias = tuple[str, ...]
"""The result of one task: a tuple of strings."""

_LENGTH_BYTES: Final = 8


def map_forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[TaskOutput]:
    """
    Yield ``work(item)`` for each item, in order, computed in forked processes. ``work`` must be free of side effects.

    Forked processes share the modules that are loaded. Items of a process that ended early are computed here.
    """
    count = min(len(items), os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        replies = (
            [stack.enter_context(_forked(work, items[start::count])) for start in range(count)] if count > 1 else []
        )
        for index, item in enumerate(items):
            result = _read(replies[index % count]) if replies else None
            yield work(item) if result is None else result


@contextlib.contextmanager
def _forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[BinaryIO]:
    """Fork a process that computes the results of some items, and yield the pipe that it writes them to."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as replies:
            for item in items:
                body = marshal.dumps(work(item))
                replies.write(len(body).to_bytes(_LENGTH_BYTES) + body)
                replies.flush()
        os._exit(0)  # what the parent has opened must not be closed or flushed twice
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as replies:
            yield replies
    finally:
        os.waitpid(child, 0)


def _read(replies: BinaryIO) -> TaskOutput | None:
    """Return the next result, None when the process has ended."""
    body = replies.read(int.from_bytes(replies.read(_LENGTH_BYTES)))
    try:
        result: TaskOutput = marshal.loads(body)
    except (EOFError, ValueError):
        return None
    return result
