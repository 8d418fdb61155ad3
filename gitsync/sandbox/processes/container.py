"""A container that runs: its process, its probes, and its end by hook, signal and deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.controllers.nodes.runtime import ProcessState
from gitsync.sandbox.processes import probes
from gitsync.sandbox.processes.process import Launch, Process

_LOG_PERIOD = 10.0
_MOST_MESSAGE = 4096


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of a container: its spec, how its process starts, what its probes ask, and its time to end."""

    spec: Manifest
    launch: Launch
    target: probes.Target
    grace: float
    message: Path
    """The file with the termination message."""


def _text(path: Path) -> str:
    """Return a termination message, at most what Kubernetes keeps of one."""
    return path.read_bytes()[:_MOST_MESSAGE].decode("utf-8", "replace") if path.is_file() else ""


class RunningContainer:
    """Run one container once; ``changed`` is called on the loop after each change of its state."""

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._plan = plan
        self._loop = loop
        self._changed = changed
        self._ready = not (plan.spec.get("startupProbe") or plan.spec.get("readinessProbe"))
        self._started = not plan.spec.get("startupProbe")
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.process = Process(plan.launch, self._report_end)
        self._begin(self._watch_log())
        if self._started:
            self._probe()
        else:
            self._begin(probes.repeat(plan.spec["startupProbe"], plan.target, self._on_startup))

    @property
    def state(self) -> ProcessState:
        """The state as the kubelet reports it."""
        running = self.process.exit_code is None
        message = "" if running else _text(self._plan.message)
        return ProcessState(self.process.exit_code, running and self._ready, running and self._started, message)

    def stop(self, grace: float) -> asyncio.Task[None]:
        """End the process: hook, SIGTERM, and SIGKILL after ``grace`` seconds; a second call waits for the first."""
        if self._stopping is None:
            self._stopping = self._loop.create_task(self._stop(grace))
        return self._stopping

    def close(self) -> None:
        """End the process at once."""
        self._cancel()
        self.process.kill()
        self.process.join()

    async def _stop(self, grace: float) -> None:
        if self.process.exit_code is None:
            deadline = self._loop.time() + grace
            hook = at(self._plan.spec, "lifecycle", "preStop")
            if hook:
                await probes.passes(hook, self._plan.target, grace)
            self.process.terminate()
            try:
                async with asyncio.timeout(max(0.0, deadline - self._loop.time())):
                    await self._ended.wait()
            except TimeoutError:
                self.process.kill()
                await self._ended.wait()

    def _report_end(self) -> None:
        if not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(self._on_end)
            except RuntimeError:  # the sandbox stopped meanwhile
                return

    def _on_end(self) -> None:
        self._ended.set()
        self._cancel()
        self._changed()

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _begin(self, work: Coroutine[object, object, None]) -> None:
        self._tasks.append(self._loop.create_task(work))

    def _probe(self) -> None:
        spec, target = self._plan.spec, self._plan.target
        if spec.get("readinessProbe"):
            self._begin(probes.repeat(spec["readinessProbe"], target, self._on_readiness))
        elif not self._ready:
            self._on_readiness(True)
        if spec.get("livenessProbe"):
            self._begin(probes.repeat(spec["livenessProbe"], target, self._on_liveness))

    def _on_startup(self, passed: bool) -> None:
        if not passed:
            self.stop(self._plan.grace)
        elif not self._started:
            self._started = True
            self._probe()
            self._changed()

    def _on_readiness(self, passed: bool) -> None:
        self._ready = passed
        self._changed()

    def _on_liveness(self, passed: bool) -> None:
        if not passed:
            self.stop(self._plan.grace)

    async def _watch_log(self) -> None:
        while True:
            await asyncio.sleep(_LOG_PERIOD)
            self.process.trim_log()
