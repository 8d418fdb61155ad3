"""One render process, as the pool holds it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from gitsync.render.build import Build
from gitsync.source.landlock import Concealed
from gitsync.workers import protocol
from gitsync.workers.protocol import BuildHistory

_ROOT: Final = Path(__file__).resolve().parent.parent.parent
_CHUNK: Final = 1 << 20
_GRACE: Final = 1.0
_PASSED_ON: Final = ("PATH",)  # git is found by it; everything else in the environment may be a secret
"""All that a render process sees of our environment."""


_CRASHES: Final = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE})
"""Signals that a process gets for what it does; others come from the system or from an operator."""


class WorkerDied(Exception):
    """A process ended before it answered; the text says what of."""


class WorkerCrashed(WorkerDied):
    """A process ended because of what it rendered."""


class WorkerTimeout(Exception):
    """A process did not answer in time."""


class WorkerMemory(Exception):
    """A process reached its limit of memory outside a render."""


def render_command(memory: int, concealed: Concealed, *, is_for_previews: bool = False) -> tuple[str, ...]:
    """Return the command of a render process with a limit of memory in bytes; one for previews loads what they need."""
    paths = [orjson.dumps([str(path) for path in group]).decode() for group in (concealed.hidden, concealed.shown)]
    options = ["--previews"] if is_for_previews else []
    return (sys.executable, "-s", "-P", "-m", "gitsync.workers.server", str(memory), *paths, *options)


class Process:
    """
    A running render process.

    It has a session of its own, an environment without secrets, and no descriptor of ours but its two pipes.
    """

    def __init__(self, command: Sequence[str]) -> None:
        env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**env, "PYTHONPATH": str(_ROOT), "LC_ALL": "C.UTF-8", "HOME": os.devnull},
            # So that a signal to the terminal's group does not end it, and killpg reaches its children.
            start_new_session=True,
            bufsize=0,
        )
        self._last_served = ""
        self._recent = BuildHistory()
        self._outdated: dict[str, dict[str, Any]] = {}
        """The folders that another process has built last, once."""
        self._to_forget: deque[dict[str, Any]] = deque()

    @property
    def id(self) -> int:
        """The process id."""
        return self._process.pid

    def knows(self, request: dict[str, Any]) -> tuple[bool, bool]:
        """Return whether the process has built the folder that a request names, and whether its repository was last."""
        return self._recent.last(request) is not None, self._last_served == request["git_dir"]

    def forget(self, request: dict[str, Any]) -> Build | None:
        """
        Forget the last build of the folder that a request names, since another process has built it; return it.

        Where that one has built it twice in turn, the process itself forgets the folder too, with its next request.
        Not at once: requests for a folder may come to both in turn, and it renders faster with what it has.
        """
        former = self._recent.forget(request)
        folder = protocol.folder_of(request)
        if former is not None:
            self._outdated[repr(folder)] = folder
        elif (outdated := self._outdated.pop(repr(folder), None)) is not None:
            self._to_forget.append(outdated)
        return former

    def keep(self, request: dict[str, Any], build: Build) -> None:
        """Take an equal build for the one that the process returned to a request."""
        self._recent.keep(request, build)

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """
        Return the answer to a request; after WorkerDied or WorkerTimeout the process cannot be used again.

        The request names the last build of the folder that the process returned, and the process sends only the
        differences; a ``build`` in the answer is complete again.
        """
        self._last_served = request["git_dir"]
        self._outdated.pop(repr(protocol.folder_of(request)), None)
        # one by one: another thread may add to them
        forgotten = [self._to_forget.popleft() for _ in range(len(self._to_forget))]
        last = self._recent.last(request)
        more = {"before": last.commit if last else "", "forget": forgotten}
        answer = self._exchange({**request, **more}, seconds)
        if "build" in answer:
            answer["build"] = protocol.to_build(answer["build"], last.build if last else None)
            self._recent.keep(request, answer["build"])
        return answer

    def _exchange(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(protocol.frame(request))
            length = int.from_bytes(self._read(protocol.LENGTH_BYTES, deadline))
            if length > protocol.MAX_FRAME:
                raise WorkerDied("sent an answer that is too large")
            answer: dict[str, Any] = orjson.loads(self._read(length, deadline))
        # Also a broken pipe: the process may end before it has read all of the request.
        except (OSError, EOFError):
            raise self._cause() from None
        return answer

    def _read(self, size: int, deadline: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        parts: list[bytes] = []
        while size:
            remaining = deadline - time.monotonic()
            # poll, not select: descriptors may be above 1,024.
            if remaining <= 0 or not poll.poll(remaining * 1000):
                raise WorkerTimeout
            part = os.read(descriptor, min(size, _CHUNK))
            if not part:
                raise EOFError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _cause(self) -> Exception:
        """Return what the process died of, as the exception to raise."""
        # a closed pipe arrives before the exit code
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return WorkerDied("closed its output")
        if code == protocol.OUT_OF_MEMORY:
            return WorkerMemory()
        if code >= 0:
            return WorkerDied(f"ended with code {code}")
        number = signal.Signals(-code)
        # The limit on processor time, which the process set itself (RLIMIT_CPU).
        if number is signal.SIGXCPU:
            return WorkerTimeout()
        return (WorkerCrashed if number in _CRASHES else WorkerDied)(f"was ended by signal {number.name}")

    def interrupt(self) -> None:
        """Kill the process and its children; a pending request raises WorkerDied."""
        if self._process.poll() is None:
            # it may end between the two lines
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill the process and let go of it; only for who holds it alone."""
        self.interrupt()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()
