"""Applications of other replicas: shown as their status says, with the objects and the plan that are observed here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from gitsync.errors import GitsyncError, RecordUnavailable, TerminalError
from gitsync.objects.keys import APPLICATION, GROUP, VERSION
from gitsync.objects.manifest import Manifest, at, uid_of
from gitsync.objects.record import Commit, SyncRecord
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView, Cluster, Records
from gitsync.state.declarations import Declarations, branch_of
from gitsync.state.state import EngineState
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.desired import DesiredState
from gitsync.sync.input import ReconcileInput, SyncState
from gitsync.sync.operation import repaired_drift
from gitsync.sync.reconciler import Planning
from gitsync.sync.status.report import Report, unexpected_error
from gitsync.sync.status.view import view_of

_RESYNC_PERIOD: Final = 600.0
"""Seconds after which an Application is observed again although nothing is known to have changed."""
_RETRY_PERIOD: Final = 30.0
"""Seconds after which one that could not be observed is observed again."""
_REQUESTED_PERIOD: Final = 600.0
"""Seconds for which an Application is observed that a user asked for."""


class Relay:
    """
    Show Applications that other replicas reconcile; nothing is written, neither to the cluster nor to ``records``.

    The commit that the status names is rendered and compared with what lives, by the functions that its own replica
    uses. So each replica shows the same objects and, by its digest, the same plan, which may be approved anywhere. Git
    is asked only for a commit that is not in the mirror yet. With ``observes_all`` every Application is observed so,
    else one that a user asks for, some minutes long: processes of one machine are there to use less.

    ``owner_of`` returns the replica that works on an Application.
    """

    def __init__(
        self,
        planning: Planning,
        desired: DesiredState,
        state: EngineState,
        records: Records,
        owner_of: Callable[[str], str],
        *,
        observes_all: bool,
    ) -> None:
        self._planning = planning
        self._desired = desired
        self._state = state
        self._records = records
        self._owner_of = owner_of
        self._observes_all = observes_all
        self._caches: dict[str, ReconcileCache] = {}
        self._requested_until: dict[str, datetime] = {}
        """Until when Applications are observed because a user asked for them, by uid."""

    def request(self, uid: str, now: datetime) -> bool:
        """Observe an Application from now on for some minutes; return whether it is not observed yet."""
        if self._observes_all:
            return False
        is_new = not self._is_observed(uid, now)
        self._requested_until[uid] = now + timedelta(seconds=_REQUESTED_PERIOD)
        return is_new

    def _is_observed(self, uid: str, now: datetime) -> bool:
        return self._observes_all or now < self._requested_until.get(uid, now)

    def show(self, manifest: Manifest, now: datetime) -> float | None:
        """Show an Application, and return after how many seconds again, None where only its next change counts."""
        inputs = ReconcileInput.unparsed(manifest, now)
        with suppress(TerminalError):  # the other replica reports why the spec is invalid
            inputs = inputs.parsed(manifest)
        report = Report(manifest, inputs)
        uid = uid_of(manifest)
        is_observed = self._is_observed(uid, now)
        if not is_observed:
            self.forget(uid)
        elif branch_of(inputs.app) is not None and inputs.state.fetched:
            self._observe(report, self._caches.setdefault(uid, ReconcileCache()))
        self._declare(report)
        self._publish(report, is_observed=is_observed)
        if not is_observed:
            return None
        return _RETRY_PERIOD if report.error is not None else _RESYNC_PERIOD

    def forget(self, uid: str) -> None:
        """Drop what is known of an Application that is gone, or that this replica reconciles itself now."""
        self._caches.pop(uid, None)
        self._requested_until.pop(uid, None)

    def _observe(self, report: Report, cache: ReconcileCache) -> None:
        """Compare what the followed commit declares with what lives, and judge the plan."""
        state = report.inputs.state
        report.commit = Commit(state.fetched)
        # not polled: the other replica decides which commit is followed
        cache.git.commit = state.fetched
        # what is remembered precedes the inventory only where this replica wrote last
        cache.plans.applied.follow(state.inventory)
        try:
            rendered = self._desired.load_for(report, cache, Commit(_target_of(state)))
            # not validated: the status reports a commit that is not valid
            target = replace(rendered.target(report.commit, state.fetched), locate=None)
            planned = self._planning.evaluator.plan_for(report, cache, target)
            decision = self._planning.gate.decide(planned, cache)
            report.planned = replace(planned, plan=decision.plan)
            report.drift = (*planned.drift, *cache.running.news(planned.observation.running))
            report.verdict = decision.verdict
        except GitsyncError as error:
            report.fail(error)
        except Exception as fault:
            report.fail(unexpected_error(fault, report.app.key))

    def _declare(self, report: Report) -> None:
        """Store what the Application declares and at which commit, and which objects of it are followed."""
        app = report.app
        state = report.inputs.state
        branch = branch_of(app)
        declarations = self._state.declarations
        observation = report.observation
        if observation is None:
            # before its first reconcile it has no status, and nothing is known of what it declares
            if report.previous_status:
                declarations.set_declared(app.key, frozenset(state.inventory.entries))
            self._state.tracked.track(app.key, frozenset())
        else:
            self._state.tracked.track(app.key, frozenset(observation.versions) | observation.references)
        if branch is None or app.suspend or app.is_deleted:
            # no other Application may wait for one that does not sync
            declarations.leave_branch(app.key)
        elif observation is None:
            declarations.record_declared(app.key, branch, state.applied)
        else:
            # declared, whether it may be applied or not: prunes of other Applications wait for that alone
            declarations.record_declared(app.key, branch, state.fetched)

    def _publish(self, report: Report, *, is_observed: bool) -> None:
        views = self._state.views
        key = report.app.key
        previous = views.application(key)
        view = view_of(report, report.previous_status, previous)
        if is_observed and view.plan is None and previous is not None:
            # nothing was observed: the objects that were seen last are better than none
            view = replace(view, resources=previous.resources, plan=previous.plan, verdict=previous.verdict)
        if report.error is not None:
            # a member is named after its host, which is the name of its Pod, and an id
            host = self._owner_of(key).partition("_")[0]
            view = replace(view, unobserved=f"{host} works on it, and this replica cannot observe it: {report.error}")
        records = self._new_records(previous, view) if is_observed and previous is not None else ()
        repaired = [drift for record in records for drift in repaired_drift(record)]
        views.publish_remote(view, (*report.drift, *repaired), records)

    def _new_records(self, previous: ApplicationView, view: ApplicationView) -> tuple[SyncRecord, ...]:
        """Return the records that the history of a status names and that of the former view does not, oldest first."""
        known = {entry["id"] for entry in previous.status.get("history") or ()}
        new = [entry["id"] for entry in view.status.get("history") or () if entry["id"] not in known]
        with suppress(RecordUnavailable):  # only events are missing then
            return tuple(filter(None, map(self._records.record, reversed(new))))
        return ()


def is_current(cluster: Cluster, declarations: Declarations, owns: Callable[[str], bool], key: str) -> bool:
    """Return whether it is known here what an Application declares at the commit that its status names now."""
    # what this replica plans, it has declared in the same memory
    if owns(key):
        return True
    namespace, _, name = key.partition("/")
    manifest = cluster.read(ObjectRef(GROUP, APPLICATION.kind, namespace, name), VERSION)
    # one that is gone declares nothing
    return manifest is None or declarations.is_declared_at(
        key, str(at(manifest, "status", "revision", "fetched", default=""))
    )


def _target_of(state: SyncState) -> str:
    """Return the commit that the other replica converges to: an older one while the newest is known to fail."""
    rollback = state.rollback
    if rollback is not None and rollback.to_commit and rollback.bad_commit == state.fetched:
        return rollback.to_commit
    return state.fetched
