"""RenderPool: render in a few processes that have limits, no credentials, and are replaced when they die."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from gitsync.edit.adopt import Adoption, ClusterValue
from gitsync.errors import FileNotFetched, InvalidInput, SourceUnavailable, detached
from gitsync.objects.application import Application
from gitsync.objects.charts import ChartOptions
from gitsync.ports import Snapshot
from gitsync.ports.previews import PreviewRequest
from gitsync.preview.report import PreviewReport, ReportedRehearsal
from gitsync.render.build import Build
from gitsync.render.provenance.trace import FieldSelection, Traces
from gitsync.source.landlock import Concealed
from gitsync.source.local import FILE_MIB
from gitsync.workers import protocol
from gitsync.workers.edits import of_edit, to_adoption
from gitsync.workers.previews import FetchedRemotes
from gitsync.workers.process import (
    Process,
    WorkerCrashed,
    WorkerDied,
    WorkerMemory,
    WorkerTimeout,
    render_command,
)

_log = logging.getLogger(__name__)

_CURE: Final = "divide the application, or raise the limit"
# A process without work still holds about 25 MiB (decision 0042). The one used last is kept for the next commit.
_IDLE_SECONDS: Final = 300.0
_FURTHER_IDLE_SECONDS: Final = 20.0
# Folders that take longer are rendered one at a time for each tenant. Beside other tenants also those that take as long
# as a commit may be late: in all processes at once, they would delay each commit of the others by one of them.
_SLOW_SECONDS: Final = 5.0
_SLOW_BESIDE_OTHERS: Final = 0.5
# Large files that one render may have fetched beside manifests, which come together with the first of them. The next
# attempt continues from there.
_FETCHES: Final = 50


class WaitingRender:
    """One render that waits for a process."""


class RenderQueue:
    """
    Whose render is next: of the tenant with the fewest that run, and of those the one that waits longest.

    A tenant with many slow renders so delays another one by one render at most, not by all that it has.
    """

    def __init__(self) -> None:
        self._waiting: dict[WaitingRender, str] = {}
        self._running: Counter[str] = Counter()

    def join(self, tenant: str) -> WaitingRender:
        """Return the place of a render that waits from now on."""
        waiting = WaitingRender()
        self._waiting[waiting] = tenant
        return waiting

    def leave(self, waiting: WaitingRender) -> None:
        """Give up a place."""
        del self._waiting[waiting]

    def begin(self, tenant: str) -> None:
        """Count a render of a tenant that runs."""
        self._running[tenant] += 1

    def end(self, tenant: str) -> None:
        """Count a render of a tenant that has ended."""
        self._running -= Counter({tenant: 1})

    @property
    def next(self) -> WaitingRender:
        """The place that is next; there is one."""
        # the first one among equals, which has waited longest
        return min(self._waiting, key=lambda waiting: self._running[self._waiting[waiting]])


_NOTHING: Final = Concealed()


class RenderPool:
    """
    Render commits in at most ``size`` processes; safe for use from several threads.

    A process starts with the first request that finds none idle. The one that was used last ends after ``idle_seconds``
    without a request, the others earlier; the next render then starts one again. A render may take ``seconds`` and
    ``memory_mib`` MiB, and read files of ``file_mib`` MiB; one that takes more, or crashes its process twice, is an
    InvalidInput that names the limit. A process that something else ended, such as the kernel for lack of memory, is
    SourceUnavailable: it is retried. Where the kernel has Landlock, the processes cannot read what is ``concealed``.
    """

    def __init__(
        self,
        size: int,
        seconds: float,
        memory_mib: int,
        file_mib: int = FILE_MIB,
        *,
        idle_seconds: float = _IDLE_SECONDS,
        concealed: Concealed = _NOTHING,
    ) -> None:
        self._concealed = concealed
        self._size = size
        self._idle_seconds = idle_seconds
        self._seconds = seconds
        self._memory_mib = memory_mib
        self._file_bytes = file_mib << 20
        self._changed = threading.Condition()
        self._idle: dict[Process, float] = {}
        """Processes without a request, and since when, in monotonic seconds; the last one used is the last."""
        self._timer: threading.Timer | None = None
        self._timer_due = 0.0
        """When the timer ends idle processes, in monotonic seconds."""
        self._processes: set[Process] = set()
        self._is_closed = False
        self._costly: set[tuple[str, str]] = set()
        """Repository and path of what is rendered, and of what ended its process or reached a limit."""
        self._lane = threading.Lock()
        self._slow: dict[tuple[str, str], float] = {}
        """The seconds of what took long when it was rendered last."""
        self._tenants: set[str] = set()
        self._slow_lanes: dict[str, threading.Lock] = {}
        self._queue = RenderQueue()

    def render(self, snapshot: Snapshot, path: str, renderer: str = "Auto", chart: ChartOptions | None = None) -> Build:
        """Return what a path of a commit renders to; raise InvalidInput with ``file:line``."""
        build: Build = self._answer(snapshot, path, renderer, chart=chart and protocol.of_chart(chart))["build"]
        return build

    def trace(
        self, snapshot: Snapshot, path: str, renderer: str, chart: ChartOptions | None, wanted: FieldSelection
    ) -> Traces:
        """Return where these fields of what a path renders to come from; raise InvalidInput as ``render`` does."""
        answer = self._answer(
            snapshot, path, renderer, chart=chart and protocol.of_chart(chart), wanted=protocol.of_wanted(wanted)
        )
        return protocol.to_traces(answer["traces"])

    def prepare_preview(self) -> None:
        """Start a process where none is idle: it loads what a preview needs while the merge is being made."""
        with self._changed:
            if self._is_closed or self._idle or not self._is_free:
                return
            # where it cannot be started, the preview itself reports why
            with contextlib.suppress(SourceUnavailable):
                self._idle[self._start(is_for_previews=True)] = time.monotonic()
            self._end_idle_later()

    def preview(self, snapshot: Snapshot, request: PreviewRequest) -> PreviewReport:
        """Return what a merge does; raise InvalidInput as ``render`` does."""
        return PreviewReport.model_validate(self._answer_with_remotes(snapshot, request, "merge")["report"])

    def rehearse(self, snapshot: Snapshot, request: PreviewRequest) -> ReportedRehearsal:
        """Return what an API server refuses of a merge; raise InvalidInput as ``render`` does."""
        return ReportedRehearsal.model_validate(self._answer_with_remotes(snapshot, request, "rehearse")["rehearsal"])

    def _answer_with_remotes(self, snapshot: Snapshot, request: PreviewRequest, kind: str) -> dict[str, Any]:
        """Return the answer about a merge, asked again with each part of other repositories that its builds need."""
        asked = FetchedRemotes(snapshot, request)
        while True:
            answer = self._answer(asked.snapshot, "", "Preview", **{kind: asked.message})
            if "needed" not in answer:
                return answer
            asked.fetch(answer["needed"])

    def adopt(self, snapshot: Snapshot, app: Application, values: Sequence[ClusterValue]) -> Adoption:
        """Return the edits that give fields the values of the cluster; raise InvalidInput as ``render`` does."""
        answer = self._answer(snapshot, app.renders[0].path, "Edit", **of_edit(app, snapshot, values))
        return to_adoption(answer["adoption"], values)

    def _answer(self, snapshot: Snapshot, path: str, renderer: str, **more: Any) -> dict[str, Any]:
        request = {
            "git_dir": snapshot.git_dir,
            "commit": snapshot.commit.id,
            "path": path,
            "renderer": renderer,
            "seconds": self._seconds,
            "file_bytes": self._file_bytes,
            "max_objects": snapshot.max_objects,
            "remotes": [
                [remote.reference, remote.mount, remote.folder, remote.git_dir, remote.commit]
                for remote in snapshot.remotes
            ],
            **more,
        }
        # the last attempt raises what it lacks
        for is_last in (*(False,) * _FETCHES, True):
            answer = self._ask(request, snapshot.tenant)
            if answer.get("trace"):
                _log.error("rendering %s failed: %s", path, answer["trace"])
            if "limit" in answer:
                raise self._too_large()
            if "error" not in answer:
                break
            error = protocol.to_error(answer["error"])
            # a process has neither credentials nor the right to write: what it lacks is fetched here
            if is_last or not isinstance(error, FileNotFetched) or not snapshot.fetch(error):
                raise detached(error)  # the local one would keep this frame, with the snapshot
        return answer

    def _too_large(self) -> InvalidInput:
        return InvalidInput(f"rendering takes more memory than the limit of {self._memory_mib} MiB", hint=_CURE)

    def close(self) -> None:
        """End every process; a render that still runs fails."""
        with self._changed:
            self._is_closed = True
            # Their requests end with an error at once, instead of after their deadline.
            for process in self._processes:
                process.interrupt()
            idle = self._idle
            self._idle = {}
            if self._timer is not None:
                self._timer.cancel()
            self._changed.notify_all()
        for process in idle:
            process.end()

    def _ask(self, request: dict[str, Any], tenant: str) -> dict[str, Any]:
        """
        Return the answer to a request; a process that died is replaced once.

        Of the folders whose last render cost its process, one is rendered at a time, so that others find one idle.
        """
        with self._lane_of((request["git_dir"], request["path"]), tenant):
            try:
                return self._try(request, tenant)
            except WorkerDied:
                return self._retry(request, tenant)

    def _lane_of(self, folder: tuple[str, str], tenant: str) -> contextlib.AbstractContextManager[Any]:
        """Return the lock of the folders of which one is rendered at a time, none for a folder that is quick."""
        if folder in self._costly:
            return self._lane
        with self._changed:
            self._tenants.add(tenant)
            limit = _SLOW_SECONDS if len(self._tenants) == 1 else _SLOW_BESIDE_OTHERS
            if self._slow.get(folder, 0.0) < limit:
                return contextlib.nullcontext()
            # of each tenant: a slow render of one must not wait for those of another
            return self._slow_lanes.setdefault(tenant, threading.Lock())

    def _retry(self, request: dict[str, Any], tenant: str) -> dict[str, Any]:
        try:
            return self._try(request, tenant)
        # twice: what it renders crashes it, and a third attempt would too
        except WorkerCrashed as death:
            limits = f"its limits are {self._seconds:g} s and {self._memory_mib} MiB of memory"
            raise InvalidInput(f"the render process {death}; {limits}", hint=_CURE) from None
        except WorkerDied as death:
            raise SourceUnavailable(
                f"the render process {death}", hint="does its machine have enough memory? It is started again"
            ) from None

    def _try(self, request: dict[str, Any], tenant: str) -> dict[str, Any]:
        process = self._take(request, tenant)
        began = time.monotonic()
        folder = (request["git_dir"], request["path"])
        answer = dict[str, Any]()
        # Before the request: if the process dies, the entry is there already.
        self._costly.add(folder)
        try:
            answer = process.ask(request, self._seconds)
            if "build" in answer:
                answer["build"] = self._kept_once(request, process, answer["build"])
        except WorkerTimeout:
            raise InvalidInput(f"rendering takes longer than the limit of {self._seconds:g} s", hint=_CURE) from None
        except WorkerMemory:
            raise self._too_large() from None
        # after a timeout or a death the default applies: the process cannot be used again
        finally:
            self._give_back(process, tenant, not answer.get("is_last", True))
        if "limit" not in answer:
            self._costly.discard(folder)
        seconds = time.monotonic() - began
        if seconds >= _SLOW_BESIDE_OTHERS:
            self._slow[folder] = seconds
        else:
            self._slow.pop(folder, None)
        return answer

    def _kept_once(self, request: dict[str, Any], builder: Process, build: Build) -> Build:
        """
        Return a build with the identical manifests of the former one where they are equal, and forget that one.

        A process has sent all of it where another one made the former: the Application still uses that, and two take
        twice the memory.
        """
        with self._changed:
            others = self._processes - {builder}
        for process in others:
            former = process.forget(request)
            if former is not None:
                build = protocol.shared_build(build, former)
                builder.keep(request, build)
        return build

    def _take(self, request: dict[str, Any], tenant: str) -> Process:
        """Return an idle process, preferably with the folder's last build, or a new one; wait for one at the limit."""
        with self._changed:
            waiting = self._queue.join(tenant)
            try:
                while not self._is_closed and not (self._is_free and self._queue.next is waiting):
                    self._changed.wait()
                if self._is_closed:
                    raise SourceUnavailable("rendering has ended, because the controller stops")
                process = self._pick(request)
                self._queue.begin(tenant)
                return process
            finally:
                self._queue.leave(waiting)
                # another one is next now, and a process may be free for it too
                self._changed.notify_all()

    @property
    def _is_free(self) -> bool:
        """Whether a process is idle, or may be started."""
        return bool(self._idle) or len(self._processes) < self._size

    def _pick(self, request: dict[str, Any]) -> Process:
        if not self._idle:
            return self._start()
        # The last one used, among equals: its memory is warm, and the others can end.
        process = max(reversed(self._idle), key=lambda candidate: candidate.knows(request))
        del self._idle[process]
        return process

    def _start(self, *, is_for_previews: bool = False) -> Process:
        command = render_command(self._memory_mib << 20, self._concealed, is_for_previews=is_for_previews)
        try:
            process = Process(command)
        except OSError as error:
            raise SourceUnavailable(f"no render process can be started: {error.strerror}") from error
        self._processes.add(process)
        return process

    def _give_back(self, process: Process, tenant: str, is_usable: bool) -> None:
        with self._changed:
            self._queue.end(tenant)
            is_kept = is_usable and not self._is_closed
            if is_kept:
                self._idle[process] = time.monotonic()
                self._end_idle_later()
            else:
                self._processes.discard(process)
            # all of them: each one knows only whether it is next itself
            self._changed.notify_all()
        if not is_kept:
            process.end()

    def _idle_until(self) -> dict[Process, float]:
        """Return until when each idle process is kept, in monotonic seconds; called under the lock."""
        further = min(self._idle_seconds, _FURTHER_IDLE_SECONDS)
        last = next(reversed(self._idle), None)
        return {
            process: since + (self._idle_seconds if process is last else further)
            for process, since in self._idle.items()
        }

    def _end_idle_later(self) -> None:
        """Have the process whose time is over first ended then; called under the lock."""
        if not self._idle or self._is_closed:
            return
        due = min(self._idle_until().values())
        if self._timer is not None and self._timer_due <= due:  # it ends each that is over, and waits on
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = threading.Timer(max(due - time.monotonic(), 0.0), self._end_idle)
        # It must not keep the controller alive when that stops.
        self._timer.daemon = True
        self._timer.start()

    def _end_idle(self) -> None:
        """End the processes that have been idle for long enough."""
        with self._changed:
            self._timer = None
            now = time.monotonic()
            over = [process for process, until in self._idle_until().items() if until <= now]
            for process in over:
                del self._idle[process]
                self._processes.discard(process)
            self._end_idle_later()
        for process in over:
            process.end()
