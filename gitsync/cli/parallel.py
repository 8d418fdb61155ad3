"""Work on several things beside each other, in as many processes as there are processors."""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, TypeAlias

TaskOutput: TypeAlias = tuple[str, ...]
"""What came of a piece of work, as texts."""

_LENGTH_BYTES: Final = 8


def map_forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[TaskOutput]:
    """
    Yield what comes of each item, in order. ``work`` may have no effect but its result.

    Forked processes share what was loaded before. What one of them cannot tell, because it ended, is done here.
    """
    count = min(len(items), os.cpu_count() or 1)
    with contextlib.ExitStack() as stack:
        replies = (
            [stack.enter_context(_forked(work, items[start::count])) for start in range(count)] if count > 1 else []
        )
        for index, item in enumerate(items):
            told = _read(replies[index % count]) if replies else None
            yield work(item) if told is None else told


@contextlib.contextmanager
def _forked(work: Callable[[str], TaskOutput], items: Sequence[str]) -> Iterator[BinaryIO]:
    """Fork a process that does some work, and yield what it writes."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as replies:
            for item in items:
                body = marshal.dumps(work(item))
                replies.write(len(body).to_bytes(_LENGTH_BYTES) + body)
                replies.flush()
        os._exit(0)  # nothing that the parent has opened is closed or flushed twice
    os.close(writing)
    try:
        with os.fdopen(reading, "rb") as replies:
            yield replies
    finally:
        os.waitpid(child, 0)


def _read(replies: BinaryIO) -> TaskOutput | None:
    """Return the next reply, None where there is none any more."""
    body = replies.read(int.from_bytes(replies.read(_LENGTH_BYTES)))
    try:
        told: TaskOutput = marshal.loads(body)
    except (EOFError, ValueError):
        return None
    return told
