"""Questions: lines to a child process, each answered by a line of its standard output."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

_CHUNK = 1 << 20
_MOST_OPEN = 100
"""Questions without an answer after which a process gets no more of them, as its input would fill."""


class Questions:
    """
    Ask a process, by one thread at a time; a question is a number, and its answer a line that begins with it.

    So an answer that comes too late is not taken for that of the next question.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._asked = self._answered = 0
        self._rest = b""

    def ask(self, seconds: float) -> bytes | None:
        """Return the answer to a question; None where the process has ended or does not answer in time."""
        give_up, given = time.monotonic() + seconds, self._process.stdin
        if given is None:
            return None
        try:
            self._answer(b"", 0.0)  # reads those that came too late
            if self._asked - self._answered >= _MOST_OPEN:
                return None
            self._asked += 1
            number = b"%d" % self._asked
            given.write(number + b"\n")
            given.flush()
            return self._answer(number, give_up)
        except (OSError, ValueError):  # it has ended, or is being stopped
            return None

    def _answer(self, number: bytes, give_up: float) -> bytes | None:
        while (line := self._line(give_up)) is not None:
            found, _, answer = line.partition(b" ")
            self._answered = int(found)
            if found == number:
                return answer
        return None

    def _line(self, give_up: float) -> bytes | None:
        output = self._process.stdout
        while output is not None and b"\n" not in self._rest:
            if not _is_readable(output, give_up - time.monotonic()):
                return None
            chunk = os.read(output.fileno(), _CHUNK)
            if not chunk:
                return None
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def answer_until_end(given: Iterable[bytes], output: IO[bytes], report: Callable[[], bytes]) -> None:
    """Answer each question by a report without line breaks, until the input ends or no one reads the answers."""
    with suppress(BrokenPipeError):
        for line in given:
            output.write(line.strip() + b" " + report() + b"\n")
            output.flush()


def _is_readable(output: IO[bytes], seconds: float) -> bool:
    poll = select.poll()
    poll.register(output, select.POLLIN)
    return bool(poll.poll(max(seconds, 0.0) * 1000))
