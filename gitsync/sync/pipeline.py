"""
The pipeline of one application, and the page to read first.

    source → render → converge (observe → plan → gate → apply → health) → record

Every look begins anew from what Git, the cluster and the status say; memory only saves work. A look that finds
nothing changed asks and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from random import random

from gitsync.errors import GitsyncError, InvalidInput, SourceUnavailable, TransientError
from gitsync.objects.application import parse_application
from gitsync.objects.manifest import Manifest, at, metadata_of
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Clock, Cluster, Live, Renderer, Source
from gitsync.render.build import Build
from gitsync.sync.converge import Converger
from gitsync.sync.credentials import credentials_of
from gitsync.sync.memory import Memory
from gitsync.sync.observe import declare
from gitsync.sync.places import place_of
from gitsync.sync.state import State
from gitsync.sync.statuses import Statuses
from gitsync.sync.turn import Stage, Turn

_SOURCE_RETRY = 30.0


@dataclass(frozen=True, slots=True)
class Edges:
    """The parts of the world that the pipeline touches."""

    source: Source
    renderer: Renderer
    cluster: Cluster
    live: Live
    clock: Clock


class Pipeline:
    """Sync applications. One application is never synced by two threads at once: the queue sees to that."""

    def __init__(
        self,
        edges: Edges,
        converger: Converger,
        statuses: Statuses,
        state: State,
        *,
        random: Callable[[], float] = random,
    ) -> None:
        self._edges = edges
        self._converger = converger
        self._statuses = statuses
        self._state = state
        self._random = random
        self._memories: dict[str, Memory] = {}

    def sync(self, manifest: Manifest) -> float | None:
        """
        Bring the live objects of one application to what its Git revision declares.

        Return the seconds until it wants to look again. A passing failure is raised, after it was recorded.
        """
        memory = self._memory(manifest)
        turn = self._begin(manifest)
        try:
            if turn.error is not None:
                pass
            elif metadata_of(manifest).get("deletionTimestamp"):
                self._delete(turn, memory)
            elif turn.app.suspend:
                turn.phase, turn.message = "Suspended", "spec.suspend is true"
            else:
                commit = self._fetch(turn, memory)
                build = self._render(turn, memory, commit)
                desired = self._declare(turn, memory, build)
                self._converger.converge(turn, memory, desired, partial(self._place, turn, build))
        except GitsyncError as error:
            self._fail(turn, error)
        return self._record(turn)

    def forget(self, uid: str) -> None:
        """Forget an application that is gone."""
        self._memories.pop(uid, None)

    def poll_now(self, uid: str, by: str = "") -> None:
        """Ask the Git server at the next look, whatever the interval; ``by`` is the person who asked for it."""
        memory = self._memories.get(uid)
        if memory is not None:
            memory.next_poll = float("-inf")
            memory.requested_by = by

    def _begin(self, manifest: Manifest) -> Turn:
        turn = Turn.of(manifest, self._edges.clock.now())
        try:
            turn.app = parse_application(manifest)
        except InvalidInput as error:
            self._fail(turn, error)
            return turn
        wants_finalizer = turn.app.sync.prune
        if not metadata_of(manifest).get("deletionTimestamp"):
            turn.manifest = self._statuses.set_finalizer(manifest, wants_finalizer)
        return turn

    def _fetch(self, turn: Turn, memory: Memory) -> Commit:
        """Return the commit that the application follows now; the last good one while the Git server is away."""
        turn.stage = Stage.SOURCE
        app, source, clock = turn.app, self._edges.source, self._edges.clock
        source.check(app.source)
        if memory.source != app.source:
            memory.source, memory.fetched, memory.next_poll = app.source, None, float("-inf")
        credentials = credentials_of(app, self._edges.cluster, self._edges.live)
        now = clock.monotonic()
        if now >= memory.next_poll or (turn.is_requested and turn.app.requested_sync != memory.polled_for):
            age = 0.0 if memory.next_poll == float("-inf") or turn.is_requested else app.sync.interval / 2
            memory.polled_for = app.requested_sync
            try:
                memory.commit = source.resolve(app.source, credentials, max_age=age)
                memory.poll_error = None
                memory.next_poll = now + app.sync.interval * (0.9 + 0.1 * self._random())
            except SourceUnavailable as error:
                known = memory.commit or str(at(turn.manifest, "status", "revision", "fetched", default=""))
                if not known:
                    raise
                memory.commit, memory.poll_error = known, error
                memory.next_poll = now + min(app.sync.interval, _SOURCE_RETRY)
        turn.source_error = memory.poll_error
        turn.wake_in(max(memory.next_poll - now, 0.05))
        if memory.fetched is None or memory.fetched.id != memory.commit:
            self._open(turn, memory, memory.commit)
        assert memory.fetched is not None
        turn.commit = memory.fetched
        return memory.fetched

    def _open(self, turn: Turn, memory: Memory, commit: str) -> None:
        credentials = credentials_of(turn.app, self._edges.cluster, self._edges.live)
        memory.snapshot = self._edges.source.snapshot(turn.app.source, credentials, commit)
        memory.fetched = memory.snapshot.commit

    def _render(self, turn: Turn, memory: Memory, commit: Commit) -> Build:
        """Return what the commit declares; a commit that touches no file of the last render costs nothing."""
        turn.stage = Stage.RENDER
        source = turn.app.source
        key = (source.repo_url, source.path, source.renderer)
        if memory.build is None or memory.built[0] != key or memory.built[1] != commit.id:
            if not self._is_untouched(turn, memory, key, commit.id):
                if memory.snapshot is None:
                    self._open(turn, memory, commit.id)
                assert memory.snapshot is not None
                memory.build = None
                memory.build = self._edges.renderer.render(memory.snapshot, source.path, source.renderer)
            memory.built = (key, commit.id)
        memory.snapshot = None  # its files are not needed any more
        assert memory.build is not None
        turn.rendered = len(memory.build.manifests)
        turn.warnings = memory.build.warnings
        return memory.build

    def _is_untouched(self, turn: Turn, memory: Memory, key: tuple[str, str, str], commit: str) -> bool:
        if memory.build is None or memory.built[0] != key:
            return False
        changed = self._edges.source.changed_paths(turn.app.source, memory.built[1], commit)
        return changed is not None and not _touches(changed, memory.build.files_read)

    def _declare(self, turn: Turn, memory: Memory, build: Build) -> Mapping[ObjectRef, Manifest]:
        """Return the declared objects as they are applied; the very same ones while neither side changed."""
        turn.stage = Stage.OBSERVE
        known = memory.declared
        if known is None or known[0] is not build or known[1] != turn.app or not known[3]:
            objects, complete = declare(turn.app, build.manifests, self._edges.cluster)
            memory.declared = known = (build, turn.app, objects, complete)
        return known[2]

    def _place(self, turn: Turn, build: Build, manifest: Manifest, field: str) -> str:
        """Return where a field was written, by reading the files of the commit again."""
        assert turn.commit is not None
        credentials = credentials_of(turn.app, self._edges.cluster, self._edges.live)
        snapshot = self._edges.source.snapshot(turn.app.source, credentials, turn.commit.id)
        return place_of(snapshot.tree, sorted(build.files_read), manifest, field)

    def _delete(self, turn: Turn, memory: Memory) -> None:
        """Delete what the application holds, then let it go; with pruning off its objects stay."""
        if turn.app.sync.prune and len(turn.inventory):
            self._converger.clear(turn, memory)
        if not turn.app.sync.prune or not len(turn.inventory):
            turn.manifest = self._statuses.set_finalizer(turn.manifest, False)
            turn.is_gone = True
            return
        turn.phase = "Deleting" if turn.phase in ("Synced", "Executing", "Pending") else turn.phase

    def _fail(self, turn: Turn, error: GitsyncError) -> None:
        turn.error = error
        turn.phase = "Failed"
        turn.reason = turn.stage.value
        turn.message = str(error)

    def _record(self, turn: Turn) -> float | None:
        """Publish what was found, write the status if it changed, and say when to look again."""
        if turn.observation is not None:
            self._state.set_interest(turn.app.key, frozenset(turn.observation.versions) | _credentials_ref(turn))
        if not turn.is_gone:
            self._state.publish(turn)
            turn.manifest = self._statuses.write(turn.manifest, turn.to_status())
        if isinstance(turn.error, TransientError):
            raise turn.error
        return turn.wake

    def _memory(self, manifest: Manifest) -> Memory:
        return self._memories.setdefault(str(metadata_of(manifest).get("uid")), Memory())


def _credentials_ref(turn: Turn) -> frozenset[ObjectRef]:
    name = turn.app.source.credentials
    return frozenset({ObjectRef("", "Secret", turn.app.namespace, name)} if name else ())


def _touches(changed: Iterable[str], read: frozenset[str]) -> bool:
    """Whether a changed path is one that was read, or lies below a folder that was."""
    folders = tuple(path for path in read if path.endswith("/"))
    return any(path in read or path.startswith(folders) for path in changed)
