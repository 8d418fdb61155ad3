"""The controller of updates: find newer images and what other environments run, and propose it where declared."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol, Unpack

from gitsync.edit.images import full_name, moved_tags
from gitsync.errors import GitsyncError, RecordUnavailable, SourceThrottled, WrongState
from gitsync.objects.application import Application
from gitsync.objects.manifest import at, content_hash
from gitsync.objects.record import AuditFilter, AuditRecord, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.ports import ApplicationView, Clock, StateReader
from gitsync.runtime.controller import Controller
from gitsync.runtime.membership import Shard
from gitsync.runtime.workqueue import WorkQueue
from gitsync.services.adopt import ProposedAdoption
from gitsync.services.requests import AuditTrail
from gitsync.services.updates import FoundUpdate, UpdateKey, UpdateKind, UpdateService, UpdateState, UpdateView

_log = logging.getLogger(__name__)

AUTHOR: Final = "gitsync <gitsync@localhost>"
"""Who proposes what no user asked for."""
_SCAN_PERIOD: Final = 2.0
_RECHECK: Final = 600.0
"""Seconds after which a promotion is compared again although no state of both environments changed: policies may."""
_RETRY: Final = 60.0
"""Seconds until an update is found again after a failure."""
_SOON: Final = 2.0
"""Seconds until one is found again that waits for time to pass, or after another commit was first."""
_WORKERS: Final = 2
_LAST_PROPOSALS: Final = 10
"""Records that are searched for a proposal: each has one before and one after it."""


_SCAN: Final = UpdateKey("")


class ProposalRecords(AuditTrail, Protocol):
    """The audit, which every replica reads."""

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first."""
        ...


@dataclass(frozen=True, slots=True)
class UpdateControllerPorts:
    """
    What the controller works with; ``poll_now`` requests a reconcile of Applications after a commit of ours.

    ``report`` is called with an Application, an object and a text when a tag that the object declares has moved.
    """

    service: UpdateService
    view: StateReader
    share: Shard
    clock: Clock
    audit: ProposalRecords
    poll_now: Callable[[Iterable[str]], None]
    report: Callable[[str, ObjectRef, str], None]


class UpdateController:
    """
    Find updates, level-based: a key names one, never what happened, so that a commit of gitsync triggers nothing.

    A promotion is found again when the state of one of both environments changed, images by their interval. What
    ``mode`` declares is proposed then; the same values are proposed once.
    """

    def __init__(self, ports: UpdateControllerPorts) -> None:
        self._ports = ports
        self._queue: WorkQueue[UpdateKey] = WorkQueue(monotonic=ports.clock.monotonic)
        self._controller = Controller("updates", self._queue, self.reconcile, workers=_WORKERS)
        # read by the dashboard while workers replace entries
        self._lock = threading.Lock()
        self._views: dict[UpdateKey, UpdateView] = {}
        self._inputs: dict[UpdateKey, str] = {}
        self._has_scanned = False

    def start(self) -> None:
        """Start following the Applications that declare updates."""
        self._queue.add(_SCAN)
        self._controller.start()

    def stop(self) -> None:
        """Stop after the updates under way have ended."""
        self._controller.stop()

    def updates(self) -> tuple[UpdateView, ...]:
        """Return what is known of all updates, by Application."""
        with self._lock:
            views = sorted(self._views.values(), key=lambda view: view.key)
        return tuple(map(self._with_proposal, views))

    def _with_proposal(self, view: UpdateView) -> UpdateView:
        """Return an update with what another replica, or an earlier process, has proposed of exactly these values."""
        if view.state is not UpdateState.READY or view.update is None:
            return view
        digest = view.update.adoption.digest
        records: tuple[AuditRecord, ...] = ()
        # a proposal too few is better than no page
        with suppress(RecordUnavailable):
            records = self._ports.audit.audit_records(
                view.application, action=view.key.kind.purpose.word, limit=_LAST_PROPOSALS
            )
        for record in records:
            if record.outcome is Outcome.SUCCEEDED and record.digest == digest and "branch" in record.details:
                return replace(
                    view,
                    state=UpdateState.PROPOSED,
                    branch=record.details["branch"],
                    url=record.details["url"],
                    commit=record.commit,
                    digest=digest,
                    proposed=record.timestamp,
                    by=record.approver or "gitsync",
                )
        return view

    def images_changed(self, names: Collection[str]) -> int:
        """Read the registries of the images with these full names again; return how many Applications follow one."""
        declared = _declared(self._ports.view.applications())
        keys = [
            key
            for key, app in declared
            if key.kind is UpdateKind.IMAGES and any(full_name(policy.name) in names for policy in app.images)
        ]
        for key in keys:
            self._queue.add(key)
        return len(keys)

    def propose(self, key: UpdateKey, digest: str, *, author: str, reason: str) -> UpdateView:
        """
        Propose exactly what was shown, for a user, on a branch of its own; raise WrongState where that has changed.

        Raise Refused where a policy forbids it, and the errors of Git and its host.
        """
        view = self._ports.view.application(key.application)
        if view is None or view.application is None or not key.kind.mode_of(view.application):
            raise WrongState("declares no such update", object=f"Application {key.application}")
        update = self._ports.service.find(key.kind, view.application)
        found = self._remember_found(key, view.application, update)
        if update.is_ready and update.adoption.digest != digest:
            raise WrongState(
                "another update is found since it was shown", object=key.application, hint="review it again"
            )
        branch = key.kind.purpose.branch(view.application.name)
        proposed = self._ports.service.propose(update, author=author, reason=reason, branch=branch)
        return self._remember(self._proposed(found, proposed, author))

    def reconcile(self, key: UpdateKey) -> float | None:
        """Find one update and propose it where that is declared; return the seconds until the next time."""
        if key == _SCAN:
            self._scan()
            return _SCAN_PERIOD
        view = self._ports.view.application(key.application)
        app = view.application if view is not None else None
        is_ours = self._ports.share.owns(key.application)
        if app is None or not key.kind.mode_of(app):
            with self._lock:
                self._views.pop(key, None)
            self._inputs.pop(key, None)
            return self._withdraw_undeclared(key, app) if app is not None and is_ours else None
        try:
            update = self._ports.service.find(key.kind, app)
            found = self._remember_found(key, app, update)
            # what another replica proposes is found here too, so that each shows it
            may_propose = is_ours and found.mode != "Manual" and not app.suspend
            if found.state is UpdateState.READY and may_propose:
                self._remember(self._propose_alone(found, update))
            elif update.is_superseded and is_ours:
                self._withdraw(key.kind, app, _superseded(update))
        except GitsyncError as error:
            _log.warning("update of %s (%s) failed: %s", key.application, key.kind, error)
            self._remember(self._failed(key, app, str(error)))
            if isinstance(error, WrongState):
                # the branch moved between the edit and its push: it is edited again on top
                return _SOON
            delay = error.retry_after if isinstance(error, SourceThrottled) else None
            return max(delay or 0.0, _RETRY)
        if update.waits and not update.head:
            # costs no request: nothing was read yet, and what it waits for is in memory
            return _SOON
        return app.image_updates.interval if key.kind is UpdateKind.IMAGES else _RECHECK

    def _withdraw_undeclared(self, key: UpdateKey, app: Application) -> float | None:
        """Withdraw the proposal of an update that is not declared any more; return when to try again."""
        member = "promotion" if key.kind is UpdateKind.PROMOTION else "images"
        try:
            self._withdraw(key.kind, app, f"spec.{member} of the Application was removed")
        except GitsyncError as error:
            _log.warning("the update of %s (%s) was not withdrawn: %s", key.application, key.kind, error)
            return _RECHECK
        return None

    def _withdraw(self, kind: UpdateKind, app: Application, reason: str) -> None:
        """Close the pull request of an earlier proposal and delete its branch, where there is one; see the audit."""
        head = "" if app.suspend else self._ports.service.leftover(kind, app)
        if not head:
            return
        record = AuditRecord.of_application(
            app, "withdraw", Outcome.INTENDED, self._ports.clock.now(), f"{kind.purpose.branch(app.name)}: {reason}"
        )
        self._ports.audit.audit([record])
        try:
            url = self._ports.service.withdraw(
                kind, app, head, f"gitsync closes this for Application `{app.key}`: {reason}."
            )
        except GitsyncError as error:
            self._audit_end(record, Outcome.FAILED, message=str(error))
            raise
        self._audit_end(record, Outcome.SUCCEEDED, message=url, commit=head)

    def _propose_alone(self, found: UpdateView, update: FoundUpdate) -> UpdateView:
        """Propose an update without a user; the record is first, as for every write."""
        is_direct = update.is_direct
        words = "commit to the tracked branch" if is_direct else "propose on a branch"
        record = AuditRecord.of_application(
            update.app,
            update.kind.purpose.word,
            Outcome.INTENDED,
            self._ports.clock.now(),
            f"{words}: {'; '.join(str(value) for value in update.adoption.values)}"[:1000],
        )
        self._ports.audit.audit([record])
        branch = "" if is_direct else update.kind.purpose.branch(update.app.name)
        try:
            proposed = self._ports.service.propose(update, author=AUTHOR, branch=branch, is_direct=is_direct)
        except GitsyncError as error:
            self._audit_end(record, Outcome.FAILED, message=str(error))
            raise
        record = replace(record, digest=update.adoption.digest)
        if proposed.branch:
            record = replace(record, details={**record.details, "branch": proposed.branch, "url": proposed.url})
        self._audit_end(record, Outcome.SUCCEEDED, commit=proposed.commit.id)
        if is_direct:
            self._ports.poll_now([update.app.key])
        return self._proposed(found, proposed, "gitsync")

    def _audit_end(self, record: AuditRecord, outcome: Outcome, message: str = "", commit: str = "") -> None:
        ended = replace(record, outcome=outcome, timestamp=self._ports.clock.now(), message=message, commit=commit)
        self._ports.audit.audit([ended])

    def _remember_found(self, key: UpdateKey, app: Application, update: FoundUpdate) -> UpdateView:
        # one step: a proposal of a user between the read and the write would be forgotten
        with self._lock:
            last = self._views.get(key)
            view = self._views[key] = self._found(key, app, update, last)
        known = moved_tags(last.update.images) if last is not None and last.update is not None else {}
        for ref, text in moved_tags(update.images).items():
            # once, until it moves again or what runs is another one
            if known.get(ref) != text and self._ports.share.owns(app.key):
                self._ports.report(app.key, ref._replace(namespace=ref.namespace or app.destination.namespace), text)
        return view

    def _found(self, key: UpdateKey, app: Application, update: FoundUpdate, last: UpdateView | None) -> UpdateView:
        """Return what is known now, with the last proposal where it has the same values still."""
        view = UpdateView(key, key.kind.mode_of(app), UpdateState.CURRENT, self._ports.clock.now(), update)
        if update.refusal:
            return replace(view, state=UpdateState.REFUSED, problem=update.refusal)
        if update.waits:
            return replace(view, state=UpdateState.WAITING, problem=update.waits)
        if not update.adoption.values:
            return view
        if last is None or last.proposed is None or last.digest != update.adoption.digest:
            return replace(view, state=UpdateState.READY)
        return replace(
            last, state=UpdateState.PROPOSED, problem="", checked=view.checked, update=update, mode=view.mode
        )

    def _failed(self, key: UpdateKey, app: Application, problem: str) -> UpdateView:
        with self._lock:
            last = self._views.get(key)
        now = self._ports.clock.now()
        if last is None:
            return UpdateView(key, key.kind.mode_of(app), UpdateState.FAILED, now, problem=problem)
        return replace(last, state=UpdateState.FAILED, checked=now, problem=problem)

    def _proposed(self, found: UpdateView, proposed: ProposedAdoption, by: str) -> UpdateView:
        return replace(
            found,
            state=UpdateState.PROPOSED,
            problem="",
            branch=proposed.branch,
            url=proposed.url,
            commit=proposed.commit.id,
            digest=found.update.adoption.digest if found.update is not None else "",
            proposed=self._ports.clock.now(),
            by=by,
        )

    def _remember(self, view: UpdateView) -> UpdateView:
        with self._lock:
            self._views[view.key] = view
        return view

    def _scan(self) -> None:
        """Enqueue the updates whose Applications changed, and those that nothing declares any more."""
        views = {view.key: view for view in self._ports.view.applications()}
        declared = dict(_declared(views.values()))
        for key, app in declared.items():
            inputs = content_hash(list(_inputs(views, app, key.kind)))
            if self._inputs.get(key) != inputs:
                self._inputs[key] = inputs
                self._queue.add(key)
        with self._lock:
            gone = self._views.keys() - declared.keys()
        # an earlier process may have ended between the pull request that it closed and the branch
        undeclared = () if self._has_scanned else _undeclared(views.values())
        self._has_scanned = True
        for key in (*gone, *undeclared):
            self._queue.add(key)


def _declared(views: Iterable[ApplicationView]) -> Iterator[tuple[UpdateKey, Application]]:
    for view in views:
        for kind in UpdateKind:
            if view.application is not None and kind.mode_of(view.application):
                yield UpdateKey(view.key, kind), view.application


def _superseded(update: FoundUpdate) -> str:
    if update.kind is UpdateKind.IMAGES:
        return "no image is left to update: what it proposed is declared, is not allowed any more, or was set back"
    return f"nothing is left to take from {update.origin}: what it proposed is declared, or went back"


def _undeclared(views: Iterable[ApplicationView]) -> Iterator[UpdateKey]:
    """Yield the updates that are not declared of Applications whose repository has a host."""
    for view in views:
        app = view.application
        if app is None or app.pull_requests is None:
            continue
        yield from (UpdateKey(view.key, kind) for kind in UpdateKind if not kind.mode_of(app))


def _inputs(views: dict[str, ApplicationView], app: Application, kind: UpdateKind) -> Iterator[object]:
    """Yield what an update depends on, as far as it is in memory."""
    yield [app.generation, app.suspend, at(views[app.key].status, "revision", "fetched", default="")]
    source = views.get(f"{app.namespace}/{app.promotion.from_}") if app.promotion else None
    if kind is UpdateKind.PROMOTION and source is not None:
        members = ("phase", "health", "phaseSince", "healthSince", "pinned")
        yield [str(source.status.get(name)) for name in members]
        yield [str(at(source.status, "revision", name, default="")) for name in ("applied", "fetched")]
