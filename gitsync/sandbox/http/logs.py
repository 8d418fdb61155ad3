"""Logs of containers: the file of a process, followed while it grows, or the text of a simulated one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.sandbox.controllers.nodes.runtime import ContainerBehaviour, ContainerRuntime, behaviour_of
from gitsync.sandbox.http.transport.messages import TEXT, Response, Sink, StreamReply

_LAST_WORDS = {
    ContainerBehaviour.FAILS: "fatal: the process ends with exit code 1",
    ContainerBehaviour.OOM: "allocating memory beyond the limit",
    ContainerBehaviour.ENDS: "done",
}


def log_of(pod: Manifest, container: str, *, previous: bool = False) -> str | None:
    """
    Return the log of a container, or of the run before; None when there was none.

    The text depends on the pod alone: the same pod prints the same log.
    """
    status = _status_of(pod, container)
    spec = _spec_of(pod, container)
    if status is None or spec is None:
        return None
    began = _began(status, previous=previous)
    if began is None:
        return None
    ends = pod["spec"].get("restartPolicy", "Always") != "Always"
    lines = [
        f"{began} {spec['image']} starts in pod {pod['metadata']['namespace']}/{pod['metadata']['name']}",
        *(f"{began} listening on port {port['containerPort']}" for port in spec.get("ports") or ()),
    ]
    last = _LAST_WORDS.get(behaviour_of(spec, ends=ends))
    if last is None:
        lines.append(f"{began} ready")
    elif previous or "running" not in status["state"]:
        lines.append(f"{began} {last}")
    return "\n".join(lines) + "\n"


def waiting_reason(pod: Manifest, container: str) -> str:
    """Return why a container has no log yet."""
    return str(at(_status_of(pod, container), "state", "waiting", "reason", default="ContainerCreating"))


def _status_of(pod: Manifest, container: str) -> Manifest | None:
    members = ("containerStatuses", "initContainerStatuses")
    statuses = [status for member in members for status in at(pod, "status", member) or ()]
    return next((status for status in statuses if status["name"] == container), None)


def _spec_of(pod: Manifest, container: str) -> Manifest | None:
    specs = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())]
    return next((container_spec for container_spec in specs if container_spec["name"] == container), None)


def _began(status: Manifest, *, previous: bool) -> str | None:
    """Return when the run began that the log is of."""
    last = at(status, "lastState", "terminated", "startedAt")
    if previous:
        return None if last is None else str(last)
    now = at(status, "state", "running", "startedAt") or at(status, "state", "terminated", "startedAt") or last
    return None if now is None else str(now)


# Seconds between two reads of a file that may have grown.
_PERIOD = 0.2
_CHUNK = 256 * 1024


def log_file(runtime: ContainerRuntime | None, pod: Manifest, container: str, *, previous: bool) -> Path | None:
    """Return the file with the log of a container that runs as a process, None for a simulated one."""
    statuses = [*(at(pod, "status", "containerStatuses") or ()), *(at(pod, "status", "initContainerStatuses") or ())]
    status = next((container_status for container_status in statuses if container_status["name"] == container), None)
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


def follow(path: Path, tail: str, is_running: Callable[[], bool]) -> StreamReply:
    """Return a stream of a log, from its last lines on until its container has ended."""

    def open_stream(sink: Sink) -> Callable[[], None]:
        task = asyncio.ensure_future(_copy(path, tail, is_running, sink))

        def close() -> None:
            if asyncio.current_task() is not task:  # the end of the stream closes it too
                task.cancel()

        return close

    return StreamReply(open_stream, TEXT)


async def _copy(path: Path, tail: str, is_running: Callable[[], bool], sink: Sink) -> None:
    with path.open("rb") as file:  # open until the end: the file goes with its Pod
        _send(sink, "".join(last_lines(file.read().decode("utf-8", "replace"), tail)).encode())
        is_last = False
        while not is_last:
            # Asked before the read, so that what the process wrote last is still sent.
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
