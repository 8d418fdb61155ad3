"""Container logs: those of processes from their files, followed while they grow; those of simulated ones as text."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox.controllers.nodes.logs import log_of
from gitsync.sandbox.controllers.nodes.runtime import ContainerRuntime
from gitsync.sandbox.http.transport.messages import TEXT, Response, Sink, Stream

_PERIOD = 0.2
_CHUNK = 256 * 1024


def log_file(runtime: ContainerRuntime | None, pod: Manifest, container: str, *, previous: bool) -> Path | None:
    """Return the file with the log of a container that runs as a process, None for a simulated one."""
    statuses = [*(at(pod, "status", "containerStatuses") or ()), *(at(pod, "status", "initContainerStatuses") or ())]
    status = next((each for each in statuses if each["name"] == container), None)
    if runtime is None or status is None:
        return None
    return runtime.log(uid_of(pod), container, status["restartCount"] - (1 if previous else 0))


def log_text(path: Path | None, pod: Manifest, container: str, *, previous: bool) -> str | None:
    """Return the log of a container so far, or of the run before; None when there was none."""
    if path is None:
        return log_of(pod, container, previous=previous)
    return path.read_text(encoding="utf-8", errors="replace")


def log_response(text: str, tail: str) -> Response:
    """Return a log, or its last lines."""
    return Response(200, "".join(last_lines(text, tail)).encode(), TEXT)


def last_lines(text: str, tail: str) -> list[str]:
    """Return the lines of a log, the last ones where ``tail`` is a number."""
    lines = text.splitlines(keepends=True)
    return lines[len(lines) - min(int(tail), len(lines)) :] if tail.isdecimal() else lines


def follow(path: Path, tail: str, is_running: Callable[[], bool]) -> Stream:
    """Return a stream of a log, from its last lines on until its container has ended."""

    def open_stream(sink: Sink) -> Callable[[], None]:
        task = asyncio.ensure_future(_copy(path, tail, is_running, sink))

        def close() -> None:
            if asyncio.current_task() is not task:  # the end of the stream closes it too
                task.cancel()

        return close

    return Stream(open_stream, TEXT)


async def _copy(path: Path, tail: str, is_running: Callable[[], bool], sink: Sink) -> None:
    with path.open("rb") as file:  # open until the end: the file goes with its Pod
        _send(sink, "".join(last_lines(file.read().decode("utf-8", "replace"), tail)).encode())
        is_last = False
        while not is_last:
            is_last = not is_running()
            if os.fstat(file.fileno()).st_size < file.tell():
                file.seek(0)  # a log that became too large starts again
            while chunk := file.read(_CHUNK):
                _send(sink, chunk)
            await asyncio.sleep(_PERIOD)
    sink.end()


def _send(sink: Sink, chunk: bytes) -> None:
    if chunk:  # an empty chunk would end the stream
        sink.send(chunk)
