"""RenderPool: render in a few processes that have limits, no credentials, and are replaced when they die."""

from __future__ import annotations

import logging
import threading
from typing import Any, Final

from gitsync.errors import InvalidInput, SourceUnavailable
from gitsync.ports import Snapshot
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.workers import protocol
from gitsync.workers.process import Process, WorkerDied, WorkerTimeout, render_command

_log = logging.getLogger(__name__)

_TRIES: Final = 2
"""A process can die of what is not the input's fault, such as another program's hunger for memory."""
_CURE: Final = "divide the application, or raise the limit"


class RenderPool:
    """
    Render commits in at most ``size`` processes; safe for use from several threads.

    A process starts with the first request that finds none idle, and stays. A render may take ``seconds`` and
    ``memory_mib`` MiB; one that takes more, or crashes its process, is an InvalidInput that names the limit.
    """

    def __init__(self, size: int, seconds: float, memory_mib: int) -> None:
        self._size = size
        self._seconds = seconds
        self._memory_mib = memory_mib
        self._changed = threading.Condition()
        self._idle: list[Process] = []
        self._processes: set[Process] = set()
        self._is_closed = False

    def render(self, snapshot: Snapshot, path: str, renderer: str = "Auto") -> Build:
        """Return what a path of a commit renders to; raise InvalidInput with ``file:line``."""
        build: Build = self._answer(snapshot, path, renderer)["build"]
        return build

    def trace(self, snapshot: Snapshot, path: str, renderer: str, wanted: FieldSelection) -> Traces:
        """Return where these fields of what a path renders to come from; raise InvalidInput as ``render`` does."""
        return protocol.to_traces(self._answer(snapshot, path, renderer, wanted=protocol.of_wanted(wanted))["traces"])

    def _answer(self, snapshot: Snapshot, path: str, renderer: str, **more: Any) -> dict[str, Any]:
        request = {
            "git_dir": snapshot.git_dir,
            "commit": snapshot.commit.id,
            "path": path,
            "renderer": renderer,
            "seconds": self._seconds,
            **more,
        }
        answer = self._ask(request)
        if answer.get("trace"):
            _log.error("rendering %s failed: %s", path, answer["trace"])
        if "limit" in answer:
            what = f"rendering takes more memory than the limit of {self._memory_mib} MiB"
            raise InvalidInput(what, hint=_CURE)
        if "error" in answer:
            raise protocol.to_error(answer["error"])
        return answer

    def close(self) -> None:
        """End every process; a render that still runs fails."""
        with self._changed:
            self._is_closed = True
            for process in self._processes:
                process.interrupt()
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for process in idle:
            process.end()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        reason = ""
        for _ in range(_TRIES):
            process = self._take(request)
            is_usable = False
            try:
                answer = process.ask(request, self._seconds)
                is_usable = not answer["is_last"]
                return answer
            except WorkerTimeout:
                raise InvalidInput(
                    f"rendering takes longer than the limit of {self._seconds:g} s", hint=_CURE
                ) from None
            except WorkerDied as death:
                reason = str(death)
            finally:
                self._give_back(process, is_usable)
        raise InvalidInput(
            f"the render process {reason}; its limits are {self._seconds:g} s and {self._memory_mib} MiB of memory",
            hint=_CURE,
        )

    def _take(self, request: dict[str, Any]) -> Process:
        """Return an idle process, preferably with the folder's last build, or a new one; wait for one at the limit."""
        with self._changed:
            while True:
                if self._is_closed:
                    raise SourceUnavailable("rendering has ended, because the controller stops")
                if self._idle:
                    process = max(reversed(self._idle), key=lambda one: one.knows(request))
                    self._idle.remove(process)
                    return process
                if len(self._processes) < self._size:
                    return self._start()
                self._changed.wait()

    def _start(self) -> Process:
        try:
            process = Process(render_command(self._memory_mib << 20))
        except OSError as error:
            raise SourceUnavailable(f"no render process can be started: {error.strerror}") from error
        self._processes.add(process)
        return process

    def _give_back(self, process: Process, is_usable: bool) -> None:
        with self._changed:
            is_kept = is_usable and not self._is_closed
            if is_kept:
                self._idle.append(process)
            else:
                self._processes.discard(process)
            self._changed.notify()
        if not is_kept:
            process.end()
