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
from gitsync.sync.analysis.post_sync import PostSyncAnalysis
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.desired import DesiredState
from gitsync.sync.fetch import Fetcher
from gitsync.sync.reconcile import FailureReason, Reconcile, Rollback
from gitsync.sync.reconciler import Reconciler
from gitsync.sync.state_store import StateStore
from gitsync.sync.status.build import build_status
from gitsync.sync.status.refusal_audit import audit_record, previous_refusal, refusal_message
from gitsync.sync.status.writer import StatusWriter

_HOOKS = {PRE_DELETE: HookPhase.PRE_DELETE, POST_DELETE: HookPhase.POST_DELETE}
"""The finalizers that stand for hooks."""
_GIT = (FailureReason.SOURCE, FailureReason.RENDER)
"""The stages in which what is wrong is wrong in Git."""


class Pipeline:
    """Sync applications. One application is never synced by two threads at once: the queue sees to that."""

    def __init__(
        self,
        fetcher: Fetcher,
        desire: DesiredState,
        converger: Reconciler,
        aftermath: PostSyncAnalysis,
        records: Records,
        statuses: StatusWriter,
        state: StateStore,
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
        self._memories: dict[str, ReconcileCache] = {}

    def sync(self, manifest: Manifest) -> float | None:
        """
        Bring the live objects of one application to what its Git revision declares.

        Return the seconds until it wants to look again. A passing failure is raised, after it was recorded.
        """
        cache = self._memory(uid_of(manifest))
        run = Reconcile.start(manifest, self._clock.now())
        run.requested_by = cache.requested_by
        try:
            run.app = parse_application(manifest)
            if metadata_of(manifest).get("deletionTimestamp"):
                self._delete(run, cache)
            elif run.app.suspend:
                run.suspend()
            else:
                self._finalize(run, _finalizers(manifest))
                self._follow(run, cache)
        except GitsyncError as error:
            run.set_error(error)
        return self._record(run)

    def relay(self, manifest: Manifest) -> None:
        """Show an application that another replica works on, as its status says, and remember nothing of it."""
        self.forget(uid_of(manifest))
        run = Reconcile.start(manifest, self._clock.now())
        with suppress(TerminalError):  # the other replica says why it cannot be read
            run.app = parse_application(manifest)
        self._state.publish_remote(run)

    def forget(self, uid: str) -> None:
        """Forget an application that is gone."""
        self._memories.pop(uid, None)

    def poll_now(self, uid: str) -> None:
        """Ask the Git server at the next look, whatever the interval."""
        self._memory(uid).notified_at = self._clock.monotonic()

    def request(self, uid: str, by: str) -> None:
        """Sync at the next look because a person asks for it, also where automation is off."""
        self.poll_now(uid)
        self._memory(uid).requested_by = by

    def _follow(self, run: Reconcile, cache: ReconcileCache) -> None:
        """Converge to the commit that Git has; while that cannot be used, keep up the last one that was applied."""
        try:
            commit = self._fetcher.fetch(run, cache)
            self._state.record_revision(run.app.key, run.app.source.repo_url, commit.id)
            if run.pin is not None and run.pin.bad_commit == commit.id and not run.is_requested:
                self._stand_by(run, cache, run.pin)
            else:
                run.pin = None
                self._converge(run, cache, commit)
                self._aftermath.evaluate(run)
        except TerminalError as error:
            stage = run.stage
            if stage not in _GIT or run.applied in ("", run.commit.id if run.commit else ""):
                raise
            self._keep_up(run, cache, error)
            run.stage = stage
            run.set_error(error)

    def _stand_by(self, run: Reconcile, cache: ReconcileCache, pin: Rollback) -> None:
        """Keep up an older commit, or just look, while Git's newest one is known to be no good."""
        if pin.to_commit:
            run.target_commit = Commit(pin.to_commit)
        assert run.target_commit is not None
        self._converge(run, cache, run.target_commit)
        if run.phase in ("Synced", "Drifted", "Pending"):
            run.hold_on(pin)

    def _keep_up(self, run: Reconcile, cache: ReconcileCache, reason: TerminalError) -> None:
        run.target_commit = Commit(run.applied)
        try:
            self._converge(run, cache, run.target_commit)
        except TerminalError:
            raise reason from None  # the reason why the newest cannot be used is what helps

    def _converge(self, run: Reconcile, cache: ReconcileCache, commit: Commit) -> None:
        desired = self._desire.load(run, cache, commit)
        self._converger.reconcile(run, cache, desired, partial(self._desire.locate, run, cache))
        phases = {phase for manifest in desired.values() for phase in options_of(manifest).hooks}
        self._finalize(run, {finalizer for finalizer, phase in _HOOKS.items() if phase in phases})

    def _finalize(self, run: Reconcile, hooks: Collection[str]) -> None:
        """Keep a finalizer for each thing that is to be done when the application is deleted."""
        wanted = {FINALIZER}.union(_HOOKS.keys() & hooks) if run.app.sync.prune else frozenset[str]()
        run.manifest = self._statuses.set_finalizers(run.manifest, wanted)

    def _delete(self, run: Reconcile, cache: ReconcileCache) -> None:
        """
        Run the hooks before, delete what the application holds, run the hooks after, and let it go.

        A finalizer stands for each, and is taken off when it is done. With pruning off nothing is done, and all stays.
        """
        run.target_commit = Commit(run.applied) if run.applied else None
        left = _finalizers(run.manifest) if run.app.sync.prune else frozenset[str]()
        for finalizer in (PRE_DELETE, FINALIZER, POST_DELETE):
            if finalizer in left and not self._is_done(run, cache, finalizer):
                if run.phase in ("Synced", "Drifted", "Executing", "Pending"):
                    run.phase = "Deleting"
                return
            left -= {finalizer}
            run.manifest = self._statuses.set_finalizers(run.manifest, left)
        run.is_deleted = True

    def _is_done(self, run: Reconcile, cache: ReconcileCache, finalizer: str) -> bool:
        """Go on with what a finalizer stands for, and tell whether it is done."""
        phase = _HOOKS.get(finalizer)
        if phase is None:
            return not len(run.inventory) or self._converger.delete_all(run, cache)
        if run.target_commit is None:
            return True
        hooks = _hooks_of(run.app, self._desire.load(run, cache, run.target_commit), phase)
        return not hooks or self._converger.run_deletion_hooks(run, cache, hooks, phase)

    def _record(self, run: Reconcile) -> float | None:
        """Publish what was found, write the status if it changed, and say when to look again."""
        key, observation = run.app.key, run.observation
        objects = frozenset(observation.versions) if observation is not None else self._state.tracked(key)
        self._state.track(key, objects | _looked_at(run))
        if not run.is_deleted:
            status = self._accounted(run)
            self._state.publish(run, status)
            run.manifest = self._statuses.write(run.manifest, status)
        if isinstance(run.error, TransientError):
            raise run.error
        return run.requeue_after

    def _accounted(self, run: Reconcile) -> dict[str, Any]:
        """Return the status; a refusal that it says for the first time stands in the audit before."""
        status = build_status(run)
        message = refusal_message(run, status)
        if message and message != previous_refusal(run):
            try:
                self._records.audit([audit_record(run, message)])
            except RecordUnavailable as error:
                run.set_error(error)
                return build_status(run)
        return status

    def _memory(self, uid: str) -> ReconcileCache:
        return self._memories.setdefault(uid, ReconcileCache())


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


def _secrets_of(run: Reconcile) -> frozenset[ObjectRef]:
    source = run.app.source
    names = (source.credentials_secret, source.verification_secret, source.decryption_secret)
    return frozenset(ObjectRef("", "Secret", run.app.namespace, name) for name in names if name)


def _looked_at(run: Reconcile) -> frozenset[ObjectRef]:
    """Return what concerns an application beside its own objects."""
    others = (ObjectRef(GROUP, "Application", *key.split("/", 1)) for key in run.app.depends_on)
    return _secrets_of(run) | frozenset(others)
