"""
The pipeline of one application, and the page to read first.

    source → render → converge (observe → plan → gate → apply → health) → record

Every look begins anew from what Git, the cluster and the status say; memory only saves work. A look that finds
nothing changed asks and writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from gitsync.errors import GitsyncError, RecordUnavailable, TerminalError, TransientError
from gitsync.objects.application import Application, parse_application
from gitsync.objects.keys import FINALIZER, GROUP, POST_DELETE, PRE_DELETE
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import loses_namespace
from gitsync.plan.options import HookPhase, options_of
from gitsync.ports import Clock, Records
from gitsync.sync.analysis.post_sync import Aftermath
from gitsync.sync.cache import Memory
from gitsync.sync.desired import Desire
from gitsync.sync.fetch import Fetcher
from gitsync.sync.reconcile import Pin, Stage, Turn
from gitsync.sync.reconciler import Converger
from gitsync.sync.state_store import State
from gitsync.sync.status.build import status_of
from gitsync.sync.status.refusal_audit import refusal_before, refusal_of, refusal_record
from gitsync.sync.status.writer import Statuses

_HOOKS = {PRE_DELETE: HookPhase.PRE_DELETE, POST_DELETE: HookPhase.POST_DELETE}
"""The finalizers that stand for hooks."""
_GIT = (Stage.SOURCE, Stage.RENDER)
"""The stages in which what is wrong is wrong in Git."""


class Pipeline:
    """Sync applications. One application is never synced by two threads at once: the queue sees to that."""

    def __init__(
        self,
        fetcher: Fetcher,
        desire: Desire,
        converger: Converger,
        aftermath: Aftermath,
        records: Records,
        statuses: Statuses,
        state: State,
        clock: Clock,
    ) -> None:
        self._fetcher = fetcher
        self._desire = desire
        self._converger = converger
        self._aftermath = aftermath
        self._records = records
        self._statuses = statuses
        self._state = state
        self._clock = clock
        self._memories: dict[str, Memory] = {}

    def sync(self, manifest: Manifest) -> float | None:
        """
        Bring the live objects of one application to what its Git revision declares.

        Return the seconds until it wants to look again. A passing failure is raised, after it was recorded.
        """
        memory = self._memory(uid_of(manifest))
        turn = Turn.of(manifest, self._clock.now())
        turn.requested_by = memory.requested_by
        try:
            turn.app = parse_application(manifest)
            if metadata_of(manifest).get("deletionTimestamp"):
                self._delete(turn, memory)
            elif turn.app.suspend:
                turn.suspend()
            else:
                self._finalize(turn, _finalizers(manifest))
                self._follow(turn, memory)
        except GitsyncError as error:
            turn.fail(error)
        return self._record(turn)

    def relay(self, manifest: Manifest) -> None:
        """Show an application that another replica works on, as its status says, and remember nothing of it."""
        self.forget(uid_of(manifest))
        turn = Turn.of(manifest, self._clock.now())
        with suppress(TerminalError):  # the other replica says why it cannot be read
            turn.app = parse_application(manifest)
        self._state.relay(turn)

    def forget(self, uid: str) -> None:
        """Forget an application that is gone."""
        self._memories.pop(uid, None)

    def poll_now(self, uid: str) -> None:
        """Ask the Git server at the next look, whatever the interval."""
        self._memory(uid).hinted = self._clock.monotonic()

    def request(self, uid: str, by: str) -> None:
        """Sync at the next look because a person asks for it, also where automation is off."""
        self.poll_now(uid)
        self._memory(uid).requested_by = by

    def _follow(self, turn: Turn, memory: Memory) -> None:
        """Converge to the commit that Git has; while that cannot be used, keep up the last one that was applied."""
        try:
            commit = self._fetcher.fetch(turn, memory)
            self._state.follow(turn.app.key, turn.app.source.repo_url, commit.id)
            if turn.pin is not None and turn.pin.instead == commit.id and not turn.is_requested:
                self._stand_by(turn, memory, turn.pin)
            else:
                turn.pin = None
                self._converge(turn, memory, commit)
                self._aftermath.judge(turn)
        except TerminalError as error:
            stage = turn.stage
            if stage not in _GIT or turn.applied in ("", turn.commit.id if turn.commit else ""):
                raise
            self._keep_up(turn, memory, error)
            turn.stage = stage
            turn.fail(error)

    def _stand_by(self, turn: Turn, memory: Memory, pin: Pin) -> None:
        """Keep up an older commit, or just look, while Git's newest one is known to be no good."""
        if pin.commit:
            turn.goal = Commit(pin.commit)
        assert turn.goal is not None
        self._converge(turn, memory, turn.goal)
        if turn.phase in ("Synced", "Drifted", "Pending"):
            turn.stand_by(pin)

    def _keep_up(self, turn: Turn, memory: Memory, reason: TerminalError) -> None:
        turn.goal = Commit(turn.applied)
        try:
            self._converge(turn, memory, turn.goal)
        except TerminalError:
            raise reason from None  # the reason why the newest cannot be used is what helps

    def _converge(self, turn: Turn, memory: Memory, commit: Commit) -> None:
        desired = self._desire.of(turn, memory, commit)
        self._converger.converge(turn, memory, desired, partial(self._desire.place, turn, memory))
        phases = {phase for manifest in desired.values() for phase in options_of(manifest).hooks}
        self._finalize(turn, {finalizer for finalizer, phase in _HOOKS.items() if phase in phases})

    def _finalize(self, turn: Turn, hooks: Collection[str]) -> None:
        """Keep a finalizer for each thing that is to be done when the application is deleted."""
        wanted = {FINALIZER}.union(_HOOKS.keys() & hooks) if turn.app.sync.prune else frozenset[str]()
        turn.manifest = self._statuses.set_finalizers(turn.manifest, wanted)

    def _delete(self, turn: Turn, memory: Memory) -> None:
        """
        Run the hooks before, delete what the application holds, run the hooks after, and let it go.

        A finalizer stands for each, and is taken off when it is done. With pruning off nothing is done, and all stays.
        """
        turn.goal = Commit(turn.applied) if turn.applied else None
        left = _finalizers(turn.manifest) if turn.app.sync.prune else frozenset[str]()
        for finalizer in (PRE_DELETE, FINALIZER, POST_DELETE):
            if finalizer in left and not self._is_done(turn, memory, finalizer):
                if turn.phase in ("Synced", "Drifted", "Executing", "Pending"):
                    turn.phase = "Deleting"
                return
            left -= {finalizer}
            turn.manifest = self._statuses.set_finalizers(turn.manifest, left)
        turn.is_gone = True

    def _is_done(self, turn: Turn, memory: Memory, finalizer: str) -> bool:
        """Go on with what a finalizer stands for, and tell whether it is done."""
        phase = _HOOKS.get(finalizer)
        if phase is None:
            return not len(turn.inventory) or self._converger.clear(turn, memory)
        if turn.goal is None:
            return True
        hooks = _hooks_of(turn.app, self._desire.of(turn, memory, turn.goal), phase)
        return not hooks or self._converger.run_hooks(turn, memory, hooks, phase)

    def _record(self, turn: Turn) -> float | None:
        """Publish what was found, write the status if it changed, and say when to look again."""
        key, observation = turn.app.key, turn.observation
        objects = frozenset(observation.versions) if observation is not None else self._state.interest(key)
        self._state.set_interest(key, objects | _looked_at(turn))
        if not turn.is_gone:
            status = self._accounted(turn)
            self._state.publish(turn, status)
            turn.manifest = self._statuses.write(turn.manifest, status)
        if isinstance(turn.error, TransientError):
            raise turn.error
        return turn.wake

    def _accounted(self, turn: Turn) -> dict[str, Any]:
        """Return the status; a refusal that it says for the first time stands in the audit before."""
        status = status_of(turn)
        message = refusal_of(turn, status)
        if message and message != refusal_before(turn):
            try:
                self._records.audit([refusal_record(turn, message)])
            except RecordUnavailable as error:
                turn.fail(error)
                return status_of(turn)
        return status

    def _memory(self, uid: str) -> Memory:
        return self._memories.setdefault(uid, Memory())


def _finalizers(manifest: Manifest) -> frozenset[str]:
    return frozenset(metadata_of(manifest).get("finalizers") or ())


def _hooks_of(app: Application, declared: Mapping[ObjectRef, Manifest], phase: HookPhase) -> dict[ObjectRef, Manifest]:
    """Return the hooks that run in a phase of the deletion; not one whose namespace is gone by then."""
    return {
        ref: manifest
        for ref, manifest in declared.items()
        if phase in options_of(manifest).hooks
        and not (phase is HookPhase.POST_DELETE and loses_namespace(app, ref, declared))
    }


def _secrets_of(turn: Turn) -> frozenset[ObjectRef]:
    source = turn.app.source
    names = (source.credentials, source.verify_keys, source.decryption_keys)
    return frozenset(ObjectRef("", "Secret", turn.app.namespace, name) for name in names if name)


def _looked_at(turn: Turn) -> frozenset[ObjectRef]:
    """Return what concerns an application beside its own objects."""
    others = (ObjectRef(GROUP, "Application", *key.split("/", 1)) for key in turn.app.depends_on)
    return _secrets_of(turn) | frozenset(others)
