"""A container that runs: its process with its log, its probes, and its end by hook, signal and deadline."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gitsync.objects.manifest import Manifest, at
from gitsync.runtime.guard import guarded
from gitsync.sandbox.controllers.nodes.runtime import ProcessState
from gitsync.sandbox.processes import probes
from gitsync.sandbox.processes.usage import ProcessSession

# Kubelets rotate at 10 MiB; here the file starts again.
_MAX_LOG = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process is started with; ``memory`` is its limit in bytes, 0 for none."""

    command: Sequence[str]
    env: Mapping[str, str]
    folder: Path
    log: Path
    memory: int = 0


class ContainerProcess:
    """A running program and its process group; ``on_end`` is called once, on a thread of its own."""

    def __init__(self, launch: Launch, on_end: Callable[[], None]) -> None:
        self.log = launch.log
        self.exit_code: int | None = None
        """The exit code as a container reports it: 128 and the signal after one; None while the program runs."""
        # The guard reads this pipe and kills the group when it closes, which it does however the sandbox ends (decision
        # 0024).
        ours, theirs = os.pipe()
        try:
            with launch.log.open("ab") as output:
                self._process = subprocess.Popen(
                    guarded(launch.command),
                    stdin=ours,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(launch.env),
                    cwd=launch.folder,
                    # A process group of its own, which is killed as a whole.
                    start_new_session=True,
                )
        except BaseException:
            os.close(theirs)
            raise
        finally:
            os.close(ours)
        self.session = ProcessSession(self._process.pid, time.monotonic())
        """The session that the program and all that it started belong to."""
        self._guard = theirs
        self._limit(launch.memory)
        self._thread = threading.Thread(target=self._wait, args=(on_end,), daemon=True, name=f"wait {launch.log.name}")
        self._thread.start()

    def terminate(self) -> None:
        """Ask the program to end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program and all that it started."""
        if self.exit_code is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def join(self) -> None:
        """Wait until the program has ended."""
        self._thread.join()

    def trim_log(self) -> None:
        """Empty a log that became too large; the program appends to it again from the start."""
        if self.log.stat().st_size > _MAX_LOG:
            os.truncate(self.log, 0)

    def _limit(self, memory: int) -> None:
        if memory and hasattr(resource, "prlimit"):
            with contextlib.suppress(ProcessLookupError):
                # RLIMIT_DATA and not RLIMIT_AS: interpreters reserve much more address space than they use.
                resource.prlimit(self._process.pid, resource.RLIMIT_DATA, (memory, memory))

    def _wait(self, on_end: Callable[[], None]) -> None:
        code = self._process.wait()
        self.exit_code = code if code >= 0 else 128 - code
        os.close(self._guard)  # the guard kills what is left of the group
        on_end()


# Seconds between two checks of the log's size.
_LOG_PERIOD = 10.0
# kubelet: MaxContainerTerminationMessageLength.
_MOST_MESSAGE = 4096


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One run of a container: its spec, how its process starts, what its probes ask, and its time to end."""

    spec: Manifest
    launch: Launch
    target: probes.ProbeTarget
    grace: float
    message: Path
    """The file with the termination message."""


def _text(path: Path) -> str:
    """Return a termination message, at most what Kubernetes keeps of one."""
    return path.read_bytes()[:_MOST_MESSAGE].decode("utf-8", "replace") if path.is_file() else ""


class RunningContainer:
    """Run one container once; ``changed`` is called on the loop after each change of its state."""

    def __init__(self, plan: ContainerPlan, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._plan = plan
        self._loop = loop
        self._changed = changed
        self._ready = not (plan.spec.get("startupProbe") or plan.spec.get("readinessProbe"))
        self._started = not plan.spec.get("startupProbe")
        self._ended = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.process = ContainerProcess(plan.launch, self._report_end)
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
            # The hook uses up the grace period, as in Kubernetes.
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
        # Called on the thread that waits for the process.
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
        spec = self._plan.spec
        target = self._plan.target
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
