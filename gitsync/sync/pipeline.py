"""
The pipeline of one Application, and the module to read first.

    fetch → render → reconcile (observe → plan → decide → apply → observe) → analyse → record

Every reconcile is level-based: it starts from Git, the cluster and the status, and the cache only saves work. A
reconcile that finds no change writes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from gitsync.apply.owner_writes import WritesByOwner
from gitsync.errors import (
    GitsyncError,
    RecordUnavailable,
    SourceUnavailable,
    TerminalError,
    TransientError,
    UnexpectedError,
    detached,
)
from gitsync.objects.application import Application
from gitsync.objects.conditions import find_condition
from gitsync.objects.keys import GROUP
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import ObjectRef
from gitsync.ports import EndedReconcile, Ports
from gitsync.runtime.work_costs import StageTimer
from gitsync.state.declarations import Reach, branch_of
from gitsync.state.state import EngineState
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.changed_objects import Settled, SettledReconciler
from gitsync.sync.deletion import DeletionReconciler, phases_of, wanted_finalizers
from gitsync.sync.desired import DesiredState
from gitsync.sync.input import RepairRequest, Rollback
from gitsync.sync.polling.fetch import Fetcher, Polled, QueryDue, RevisionFollower
from gitsync.sync.polling.git_watcher import GitWatcher
from gitsync.sync.post_sync import CONDITION, PostSyncAnalysis
from gitsync.sync.reconciler import Reconciler
from gitsync.sync.relay import Relay
from gitsync.sync.status.build import build_status, failed_status, refusal_record
from gitsync.sync.status.report import FailureReason, Report, unexpected_error
from gitsync.sync.status.view import view_of
from gitsync.sync.status.writer import StatusWriter

_GIT = (FailureReason.SOURCE, FailureReason.RENDER)
"""The stages whose terminal errors have their cause in Git."""


_CHANGED = "changed"
_RECORD = "record"
"""The stages that no condition names: a reconcile of changed objects only, and writing down what others found."""
_SUSPENDED = "spec.suspend is true"
_RESYNC_PERIOD = 600.0
"""Seconds after which an Application is reconciled although nothing is known to have changed."""
_WRITING_PERIOD = 10.0
"""Seconds until changed objects of a batch are reconciled with running writes; most are echoes of the writes."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """When to reconcile an Application again, in seconds, and the other Applications that have to poll Git now."""

    requeue_after: float | None = None
    peers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReconcileStages:
    """The stages of a reconcile, in order."""

    fetcher: Fetcher
    watcher: GitWatcher
    desired: DesiredState
    reconciler: Reconciler
    deletion: DeletionReconciler
    settled: SettledReconciler
    analysis: PostSyncAnalysis
    relay: Relay
    """What is done instead where another replica reconciles the Application."""


class Pipeline:
    """Sync Applications. The work queue ensures that two threads never sync the same one."""

    def __init__(
        self, stages: ReconcileStages, ports: Ports, writes: WritesByOwner, statuses: StatusWriter, state: EngineState
    ) -> None:
        self._revision = RevisionFollower(stages.fetcher, stages.watcher)
        self._watcher = stages.watcher
        self._desired = stages.desired
        self._reconciler = stages.reconciler
        self._deletion = stages.deletion
        self._settled_reconciler = stages.settled
        self._analysis = stages.analysis
        self._relay = stages.relay
        self._records = ports.records
        self._writes = writes
        self._statuses = statuses
        self._state = state
        self._clock = ports.clock
        self._caches: dict[str, ReconcileCache] = {}
        self._settled: dict[str, Settled] = {}
        """The Applications that were in sync at their last reconcile, by uid."""

    def sync_changed(self, manifest: Manifest, changed: frozenset[ObjectRef]) -> ReconcileResult | None:
        """
        Bring changed live objects of one Application to what Git declares; None where they already are.

        Objects of a batch that is being written wait for its last answer, at most for some seconds.

        Where these objects alone cannot show that, the whole Application is synced.
        """
        meta = metadata_of(manifest)
        uid = uid_of(manifest)
        if self._writes.of(f"{meta.get('namespace')}/{meta.get('name')}").is_writing(changed):
            return ReconcileResult(_WRITING_PERIOD)
        settled = self._settled.pop(uid, None)
        if settled is not None and not changed & _watched(settled.planned.app):
            timer = StageTimer(_CHANGED)
            now = self._clock.now()
            with suppress(GitsyncError):  # the sync of the whole reports it
                still_settled = self._settled_reconciler.reconcile(
                    manifest, settled, changed, now, self._cache(uid).running
                )
                if still_settled is not None:
                    self._settled[uid] = still_settled
                    key = settled.planned.app.key
                    self._state.costs.add(EndedReconcile(key, now, timer.intervals(), is_partial=True))
                    return None
        return self.sync(manifest)

    def sync(self, manifest: Manifest) -> ReconcileResult:
        """
        Bring the live objects of one Application to what its Git revision declares.

        A transient error is raised after it was recorded.
        """
        report = Report.start(manifest, self._clock.now())
        try:
            return self._sync(report, manifest)
        finally:
            self._state.costs.add(report.ended())

    def _sync(self, report: Report, manifest: Manifest) -> ReconcileResult:
        uid = uid_of(manifest)
        # of when another replica reconciled it: what that one executes is in the status
        self._relay.forget(uid)
        cache = self._cache(uid)
        self._settled.pop(uid, None)
        is_deleted = False
        try:
            inputs = report.inputs.parsed(manifest, cache.requested_by)
            report.inputs = replace(inputs, repair=cache.requested_repair)
            for hold in inputs.app.holds:
                # nothing else tells that a hold has ended, and what it held is drift from then on
                report.requeue_in((hold.until - report.now).total_seconds())
            if metadata_of(manifest).get("deletionTimestamp"):
                # the watch event may come later, when what it declared with others is not known any more
                self._state.declarations.register(report.app.key, Reach.of(manifest))
                self._leave(report)
                is_deleted = self._deletion.reconcile(report, cache)
            elif report.app.suspend:
                self._observe_suspended(report, cache)
            else:
                # until it is rendered, the hooks of its deletion are those that it had
                wanted = wanted_finalizers(report.app, phases_of(manifest))
                report.manifest = self._statuses.set_finalizers(manifest, wanted)
                self._follow(report, cache)
        except QueryDue:
            return ReconcileResult()
        except GitsyncError as error:
            if branch_of(report.app) is None:
                self._leave(report)
            report.fail(error)
        except Exception as fault:
            report.fail(unexpected_error(fault, report.app.key))
        report.timer.enter(_RECORD)
        try:
            result = self._record(report, cache, is_deleted=is_deleted)
            settled = Settled.after(report)
            # an unresolved write may take effect any time, which a comparison of single objects would miss
            if settled is not None and self._writes.of(report.app.key).are_resolved:
                self._settled[uid] = settled
            return result
        except GitsyncError:
            raise
        except Exception as fault:
            defect = unexpected_error(fault, report.app.key)
            self._record_failure(report, defect)
            raise defect from fault

    def _observe_suspended(self, report: Report, cache: ReconcileCache) -> None:
        """
        Report how the cluster differs from what Git declares, and write nothing to it.

        Users suspend an Application during an incident, to see what happens.
        """
        difference = ""
        polled = None
        try:
            polled, newest = self._fetch(report, cache)
            commit = self._last_change(report, cache, newest)
            target = self._desired.load_for(report, cache, commit).target(report.commit, report.newest)
            difference = self._reconciler.observe(report, cache, target)
        except QueryDue:
            pass  # the answer of the Git server enqueues it again; until then the status says that it is suspended
        except GitsyncError as error:
            difference = f"it cannot be compared with Git: {error}"
            report.requeue_in(_RESYNC_PERIOD)
        message = "; ".join(filter(None, (_SUSPENDED, difference)))
        report.outcome = replace(report.outcome, phase=Phase.SUSPENDED, message=message)
        # last: observing declares what Git has, but no other Application may wait for one that does not sync
        self._leave(report)
        if polled is not None and report.commit is not None:
            # shared by all Applications of the repository: each would poll by itself at every interval otherwise
            self._watch(report, cache, polled)

    def _leave(self, report: Report) -> None:
        """Stop following the branch of an Application that does not sync."""
        self._watcher.leave(report.app.key)
        self._state.declarations.leave_branch(report.app.key, report.state.inventory)

    def relay(self, manifest: Manifest) -> float | None:
        """Show an Application that another replica reconciles, and drop its cache; return after how long again."""
        meta = metadata_of(manifest)
        key = f"{meta.get('namespace')}/{meta.get('name')}"
        self._drop(uid_of(manifest))
        # the other replica writes now, and only the audit says what it left unresolved
        self._writes.forget(key)
        self._watcher.leave(key)
        return self._relay.show(manifest, self._clock.now())

    def observe(self, uid: str) -> bool:
        """Observe an Application of another process for some minutes; return whether its next relay is the first."""
        return self._relay.request(uid, self._clock.now())

    def forget(self, uid: str) -> None:
        """Drop the cache of a deleted Application."""
        self._drop(uid)
        self._relay.forget(uid)

    def _drop(self, uid: str) -> None:
        self._caches.pop(uid, None)
        self._settled.pop(uid, None)

    def forget_sources(self, key: str) -> None:
        """Forget the repositories of an Application that is gone, so that their mirrors are deleted."""
        self._desired.forget(key)

    def cached(self) -> int:
        """Return how many Applications have a cache."""
        return len(self._caches)

    def poll_now(self, uid: str) -> None:
        """Poll the Git server at the next reconcile, whatever the interval."""
        self._cache(uid).git.notified_at = self._clock.monotonic()

    def report_newest(self, uid: str) -> None:
        """Poll the Git server at the next reconcile, and report its newest commit: another replica waits for that."""
        self.poll_now(uid)
        self._cache(uid).git.is_report_due = True

    def request(self, uid: str, by: str) -> None:
        """Sync at the next reconcile because a user requests it, also where automation is off."""
        self.poll_now(uid)
        self._cache(uid).requested_by = by

    def request_repair(self, uid: str, request: RepairRequest) -> None:
        """Restore objects at the next reconcile because a user requests it, also where self-heal is off."""
        cache = self._cache(uid)
        # read once: the reconcile that runs may take it away meanwhile
        pending = cache.requested_repair
        cache.requested_repair = replace(request, refs=request.refs | pending.refs)

    def _follow(self, report: Report, cache: ReconcileCache) -> None:
        """Reconcile to the commit that Git has; while that cannot be used, to the one that was applied last."""
        try:
            polled, newest = self._fetch(report, cache)
            commit = self._last_change(report, cache, newest)
            rollback = report.state.rollback
            if rollback is not None and rollback.bad_commit == commit.id and not report.inputs.is_requested:
                self._keep_rollback(report, cache, commit, rollback)
            else:
                report.state = replace(report.state, rollback=None)
                self._reconcile_to(report, cache, commit)
                self._analyse(report)
            if branch := branch_of(report.app):
                # the newest commit, not the last that changed something: prunes of other Applications wait for that one
                self._state.declarations.record_declared(report.app.key, branch, newest.id)
            self._watch(report, cache, polled)
        except TerminalError as error:
            stage = report.stage
            # without an older applied commit there is nothing else to converge to
            if stage not in _GIT or report.state.applied in ("", report.commit.id if report.commit else ""):
                raise
            self._keep_applied(report, cache, error)
            report.stage = stage
            report.fail(error)
        except SourceUnavailable as error:
            if report.stage is not FailureReason.SOURCE or not report.state.applied:
                raise
            # not report.fail: the applied commit is still enforced, and only the source is reported as not ready
            report.source_error = detached(error)
            report.requeue_in(error.retry_after)
            self._keep_applied(report, cache, error)

    def _fetch(self, report: Report, cache: ReconcileCache) -> tuple[Polled, Commit]:
        """Return the last poll, and the commit that the Application follows; raise QueryDue to reconcile later."""
        report.stage = FailureReason.SOURCE
        polled = self._revision.poll(report.inputs, cache.git)
        report.source_error = polled.error
        report.poll_after = None if polled.is_due else polled.requeue_after
        report.commit = commit = self._revision.checkout(report.inputs, cache.git)
        report.newest = commit.id
        return polled, commit

    def _watch(self, report: Report, cache: ReconcileCache, polled: Polled) -> None:
        """Have the branch watched from the commit that the Application declared; other commits enqueue it."""
        rendered = cache.render.commits.get(report.commit.id) if report.commit else None
        # where signatures are required, each commit has to be verified, whatever files it changes
        is_reported = any(cache.git.trusted) or self._is_dependency(report.app)
        read = rendered.build.files_read if rendered is not None and not is_reported else None
        if self._revision.watch(cache.git, polled, report.newest, read):
            report.poll_after = max(polled.requeue_after, _RESYNC_PERIOD)

    def _last_change(self, report: Report, cache: ReconcileCache, newest: Commit) -> Commit:
        """Return the newest commit that affects the Application."""
        if self._is_dependency(report.app):
            return newest
        report.stage = FailureReason.RENDER
        report.commit = commit = self._desired.last_change(report.inputs, cache, newest)
        return commit

    def _is_dependency(self, app: Application) -> bool:
        """Whether an Application depends on others, or others on it: they wait for each other's newest commit."""
        name = ObjectRef(GROUP, "Application", app.namespace, app.name)
        return bool(app.depends_on or self._state.tracked.applications_for(name))

    def _keep_rollback(self, report: Report, cache: ReconcileCache, commit: Commit, rollback: Rollback) -> None:
        """Reconcile to an older commit, or only observe, while Git's newest one is known to fail."""
        self._reconcile_to(report, cache, Commit(rollback.to_commit) if rollback.to_commit else commit)
        if report.outcome.phase in (Phase.SYNCED, Phase.DRIFTED, Phase.PENDING):
            reason = "RolledBack" if rollback.to_commit else "Held"
            report.outcome = replace(report.outcome, phase=Phase.FAILED, reason=reason, message=rollback.message)

    def _keep_applied(self, report: Report, cache: ReconcileCache, reason: GitsyncError) -> None:
        """Reconcile to the commit that was applied last; raise the reason where that cannot be read or used either."""
        stage = report.stage
        previous_state = report.state.with_followed(report.app)
        try:
            self._reconcile_to(report, cache, Commit(report.state.applied))
            report.state = replace(  # this commit is not the revision's
                report.state, followed=previous_state.followed, followed_spec_hash=previous_state.followed_spec_hash
            )
        except (TerminalError, SourceUnavailable):
            report.stage = stage
            raise detached(reason) from None  # why the newest commit cannot be used is the error to fix

    def _reconcile_to(self, report: Report, cache: ReconcileCache, commit: Commit) -> None:
        rendered = self._desired.load_for(report, cache, commit)
        self._reconciler.reconcile(report, cache, rendered.target(report.commit, report.newest))
        phases = {phase for options in rendered.options.values() for phase in options.hooks}
        report.manifest = self._statuses.set_finalizers(report.manifest, wanted_finalizers(report.app, phases))

    def _analyse(self, report: Report) -> None:
        """Decide whether the commit is good once it is applied."""
        planned = report.planned
        if planned is None or report.outcome.phase is not Phase.SYNCED:
            return
        current = replace(planned, inputs=report.inputs)
        if report.state.applied != planned.target.commit.id:
            return
        # the condition as it was before this reconcile: while a query is pending, it is kept
        result = self._analysis.evaluate(current, find_condition(report.previous_status, CONDITION))
        report.state = result.state
        report.metric_condition = result.condition
        report.record = result.record or report.record
        report.requeue_in(result.requeue_after)

    def _record(self, report: Report, cache: ReconcileCache, *, is_deleted: bool) -> ReconcileResult:
        """Publish the report and write the status if it changed."""
        key = report.app.key
        # before the status is written, which may fail: no other Application waits for that
        self._state.declarations.settle(key)
        observation = report.observation
        # without an observation the former objects stay tracked: their changes have to enqueue it meanwhile too
        objects = frozenset(observation.versions) if observation is not None else self._state.tracked.of(key)
        wanted = objects | _watched(report.app)
        if observation is not None:
            wanted |= observation.references
        is_new = not _watched(report.app) <= self._state.tracked.of(key)
        self._state.tracked.track(key, wanted)
        for dependency in report.app.depends_on if is_new else ():
            self._state.enqueue(dependency)  # from now on it reports each commit
        if not is_deleted:
            self._audit_refusal(report)
            self._keep_audit_head(report, cache)
            views = self._state.views
            previous = views.application(key)
            report.last_observed = previous.seen if previous is not None else None
            # after the audit: a link that cannot be appended becomes the error that this status reports
            status = build_status(report)
            views.publish(view_of(report, status, previous), report.drift, report.record)
            report.manifest = self._statuses.write(report.manifest, status)
            # after the write: a status that the API server does not accept is yesterday's for everyone else
            if report.is_conclusive:
                views.conclude(key, report.now)
        if isinstance(report.error, TransientError):
            raise detached(report.error)
        report.requeue_in(report.poll_after)
        return ReconcileResult(report.requeue_after, report.peers)

    def _record_failure(self, report: Report, error: UnexpectedError) -> None:
        """Write why the report of a reconcile could not be recorded; the rest of the status stays."""
        # a new report: the results in the old one may be what could not be recorded
        failed = Report(report.manifest, report.inputs)
        failed.fail(error)
        self._statuses.write(report.manifest, failed_status(failed))

    def _audit_refusal(self, report: Report) -> None:
        """Audit a refusal before the status reports it for the first time."""
        record = refusal_record(report)
        if record is not None:
            try:
                self._records.audit([record])
            except RecordUnavailable as error:
                report.fail(error)

    def _keep_audit_head(self, report: Report, cache: ReconcileCache) -> None:
        """Keep the newest link about the Application in its status, outside the database, when a sync has ended."""
        # after a crash, what was written after the head is searched for syncs without a record
        if cache.execution.operation is not None:
            return
        if report.record is not None or report.state.audit is None:
            # lost: a newer head; the older one in the status stays valid, and a later sync replaces it
            with suppress(RecordUnavailable):
                report.state = replace(report.state, audit=self._records.head(report.app.key, report.state.audit))

    def _cache(self, uid: str) -> ReconcileCache:
        return self._caches.setdefault(uid, ReconcileCache())


def _watched(app: Application) -> frozenset[ObjectRef]:
    """Return the objects whose changes enqueue an Application beside its own: Secrets, values and dependencies."""
    secrets = frozenset(
        ObjectRef("", "Secret", app.namespace, name) for part in app.source.parts for name in part.secrets
    )
    values = frozenset(
        ObjectRef("", ref.kind, app.namespace, ref.name) for part in app.source.parts for ref in part.values_from
    )
    return secrets | values | {ObjectRef(GROUP, "Application", *key.split("/", 1)) for key in app.depends_on}
