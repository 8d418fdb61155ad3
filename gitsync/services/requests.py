"""
What users request, decided once for every entrance: rights, state, audit record, then the request itself.

Pages, the JSON API, forms for several Applications and commands call these functions and only translate. The rights
are those of the operator's policies; the API server decides again for a command, by the rights of its kubeconfig.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, Unpack

from gitsync.apply.change import StepResult
from gitsync.edit.adopt import ClusterValue
from gitsync.errors import GitsyncError, InvalidInput, Refused, WrongState
from gitsync.gate.approvals import may_operate
from gitsync.gate.policy import Policy
from gitsync.kube.field_path import parse_path
from gitsync.objects.application import Application, Destination, GitSource, app_of_part
from gitsync.objects.change import Action, Change, Decision, HoldReason, Plan
from gitsync.objects.holds import LONGEST_HOLD, FieldHold
from gitsync.objects.manifest import Manifest, at
from gitsync.objects.phase import Phase
from gitsync.objects.record import AuditFilter, AuditRecord, Commit, Outcome
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.plan.parts import Choice, check_closed
from gitsync.ports import ApplicationView, Clock, RevertResult
from gitsync.services.adopt import KeepService, ProposedAdoption
from gitsync.services.revert import RevertService
from gitsync.services.reviews import Approval, ReviewRecords, ReviewService, is_held
from gitsync.services.updates import UpdateKey, UpdateKind, Updates, UpdateView
from gitsync.services.workloads import WorkloadAction, check_action


class RequestKind(StrEnum):
    """What can be requested for one Application, or for several of them at once."""

    SYNC = "sync"
    SUSPEND = "suspend"
    RESUME = "resume"


_NAMED = 20
"""Objects that the message of an audit record names; its details have all."""
_DEFAULT_REASONS = {RequestKind.SYNC: "Sync now"}
"""Reasons of requests that need none; every other kind needs a name and a reason."""


class AuditTrail(Protocol):
    """What records requests before they are made."""

    def audit(self, records: Iterable[AuditRecord]) -> None:
        """Append records to the audit chain; raise RecordUnavailable where it cannot be written."""
        ...


class RequestRecords(AuditTrail, ReviewRecords, Protocol):
    """The audit and the reviews that requests are recorded in."""

    def audit_records(
        self, application: str = "", *, limit: int = 100, before: int = 0, **wanted: Unpack[AuditFilter]
    ) -> tuple[AuditRecord, ...]:
        """Return audit records, newest first; an empty filter lets all pass."""
        ...


class DryRuns(Protocol):
    """What asks the API server what it would do with a step; nothing is written."""

    def of(self, app: Application, change: Change, *, replaces: bool = False) -> StepResult:
        """Return the answer; with ``replaces`` an object may be deleted and created again. Errors are a result."""
        ...


class ChoiceWriter(Protocol):
    """What requests a sync of chosen objects: the controller in its own process, which has the plan."""

    def request_chosen(self, key: str, choice: Choice) -> str:
        """Request it, and return its id, which the status repeats; empty for an unknown Application."""
        ...


class RequestWriter(Protocol):
    """What carries requests out: the controller in its own process, or a command through the API server."""

    def request_sync(self, key: str, by: str) -> bool:
        """Request a poll of Git and a manual sync now; False for an unknown Application."""
        ...

    def poll_now(self, keys: Iterable[str]) -> None:
        """Request a reconcile of these Applications now."""
        ...

    def suspend(self, key: str, suspended: bool) -> bool:
        """Set ``spec.suspend`` of an Application and nothing else; False for an unknown one."""
        ...


class RepairWriter(Protocol):
    """What restores single objects: the controller in its own process, which has the plan."""

    def request_repair(self, key: str, refs: frozenset[ObjectRef], by: str) -> bool:
        """Request that objects are restored to what was applied last; False for an unknown Application."""
        ...


class WorkloadWriter(Protocol):
    """What restarts workloads and deletes Pods."""

    def write_of(self, action: WorkloadAction) -> Callable[[Application, Manifest], None]:
        """Return what carries an action out for a live object, with the rights of its Application."""
        ...


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """What is requested for which live object, as the user saw it."""

    action: WorkloadAction
    live: Manifest


class HoldWriter(Protocol):
    """What writes the holds of fields: the controller in its own process, or a command through the API server."""

    def write_hold(self, key: str, name: str, text: str) -> bool:
        """Set the annotation of a hold, or remove it where the text is empty; False for an unknown Application."""
        ...


@dataclass(frozen=True, slots=True)
class Revert:
    """
    Commits to revert, newest first, by an author, on the tracked branch or on another one for review.

    ``shown`` is the newest commit of the branch that the user saw, empty where nothing was shown. ``followers`` are
    the keys of the Applications that follow the tracked branch. ``source`` is the name of the one of several sources
    whose commits they are.
    """

    commits: Sequence[Commit]
    author: str
    branch: str = ""
    shown: str = ""
    followers: tuple[str, ...] = ()
    source: str = ""


class UserRequests:
    """Requests for an Application: syncs, suspensions, reverts and reviews. A refused one leaves no audit record."""

    def __init__(
        self,
        records: RequestRecords,
        writer: RequestWriter,
        clock: Clock,
        policy_of: Callable[[Application], Policy],
    ) -> None:
        self._records = records
        self._writer = writer
        self._clock = clock
        self._policy_of = policy_of
        self._reviews = ReviewService(records, clock, policy_of)

    def check(self, view: ApplicationView, kind: RequestKind, by: User) -> None:
        """Raise Refused where the user is not an operator, WrongState where the request would do nothing."""
        self.check_operator(view, by)
        subject = _subject(view)
        if kind is RequestKind.RESUME:
            if not _is_suspended(view):
                raise WrongState("is not suspended", object=subject)
        elif _is_suspended(view):
            if kind is RequestKind.SUSPEND:
                raise WrongState("is suspended already", object=subject)
            raise WrongState("is suspended, so it is not synced", object=subject, hint="resume it first")

    def request(self, view: ApplicationView, kind: RequestKind, by: User, reason: str) -> None:
        """Request a sync, or suspend or resume an Application; raise InvalidInput without the reason that it needs."""
        self.check(view, kind, by)
        reason = reason or _DEFAULT_REASONS.get(kind, "")
        check_named(by, reason, f"to {kind.value}", _subject(view))
        # before the request: without its record it is not made (decision 0009)
        self._records.audit([AuditRecord.by_user(view.key, kind.value, by, self._clock.now(), reason)])
        if kind is RequestKind.SYNC:
            is_known = self._writer.request_sync(view.key, by.name)
        else:
            is_known = self._writer.suspend(view.key, kind is RequestKind.SUSPEND)
        if not is_known:  # deleted since the view was made
            raise WrongState("does not exist any more", object=_subject(view))

    def check_drift(self, view: ApplicationView, refs: Sequence[ObjectRef], by: User) -> frozenset[ObjectRef]:
        """
        Return the objects whose drift a user may revert: the chosen ones, or all that others changed if none is chosen.

        Raise Refused where the user is not an operator, WrongState where one of them cannot be restored alone.
        """
        # a suspended Application is not repaired either
        self.check(view, RequestKind.SYNC, by)
        subject = _subject(view)
        if not at(view.status, "drift", "objects", default=0):
            raise WrongState("has no drift", object=subject)
        if view.plan is None:
            raise _unobserved(view)
        repairs = {step.ref for step in view.plan.repairs}
        others = [ref for ref in refs if ref not in repairs]
        if others or not repairs:
            # what was applied last is not known, or restoring it needs an approval: then it is a step of the plan
            what = f"{others[0]} cannot be restored alone" if others else "its objects cannot be restored alone"
            raise WrongState(what, object=subject, hint="sync the Application: its plan has the step")
        return frozenset(refs or repairs)

    def check_chosen(self, view: ApplicationView, choice: Choice, by: User) -> tuple[Change, ...]:
        """
        Return the steps of the objects that a user chose to sync.

        Raise Refused where the user is not an operator, WrongState where one of them has no step, and InvalidInput
        where a step needs others, or deletes its object and ``prune`` is not requested.
        """
        self.check(view, RequestKind.SYNC, by)
        subject = _subject(view)
        if view.plan is None:
            raise _unobserved(view)
        if not choice.refs:
            raise InvalidInput("no object is chosen", object=subject, hint="choose at least one")
        steps = {step.ref: step for step in choosable(view)}
        for ref in sorted(choice.refs):
            if ref not in steps:
                raise WrongState(f"the plan has no step for {ref}", object=subject, hint="it is as Git declares it")
            if steps[ref].action is Action.PRUNE and not choice.prune:
                raise InvalidInput(
                    f"Git does not declare {ref} any more, so a sync deletes it",
                    object=subject,
                    hint="request it with prune, or leave the object out",
                )
        check_closed(view.plan, choice.refs, subject)
        return tuple(steps[ref] for ref in sorted(choice.refs))

    def dry_run(self, view: ApplicationView, dry_runs: DryRuns, choice: Choice, by: User) -> tuple[StepResult, ...]:
        """
        Return what the API server would answer to a sync of chosen objects; nothing is written.

        Raise as ``check_chosen``. No audit record is made, as of every dry run: nothing happens.
        """
        steps = self.check_chosen(view, choice, by)
        app = readable(view)
        return tuple(dry_runs.of(app, step, replaces=choice.replace) for step in steps)

    def sync_chosen(self, view: ApplicationView, writer: ChoiceWriter, choice: Choice, by: User, reason: str) -> str:
        """
        Request a sync of chosen objects, and of no others; return its id.

        What the gate holds of them waits for an approval as in any sync. Raise as ``check_chosen``.
        """
        steps = self.check_chosen(view, choice, by)
        check_named(by, reason, "to sync chosen objects", _subject(view))
        record = AuditRecord.by_user(view.key, "sync-objects", by, self._clock.now(), reason)
        objects = [str(step.ref) for step in steps]
        details = {**record.details, "objects": objects, "options": list(choice.options)}
        more = f" and {len(objects) - _NAMED} more" if len(objects) > _NAMED else ""
        message = "; ".join((", ".join(objects[:_NAMED]) + more, *choice.options))
        self._records.audit([replace(record, message=message, details=details)])
        # of the commit that the user saw: another one may do other things to the same objects
        revision = view.plan.revision if view.plan is not None else ""
        id = writer.request_chosen(view.key, replace(choice, revision=revision, by=by.name))
        if not id:
            raise WrongState("does not exist any more", object=_subject(view))
        return id

    def revert_drift(
        self, view: ApplicationView, writer: RepairWriter, refs: Sequence[ObjectRef], by: User, reason: str
    ) -> None:
        """Request that what others changed of some objects is set back to what was applied last; no commit is."""
        restored = self.check_drift(view, refs, by)
        check_named(by, reason, "to revert drift", _subject(view))
        record = AuditRecord.by_user(view.key, "revert-drift", by, self._clock.now(), reason)
        objects = sorted(map(str, restored))
        self._records.audit([replace(record, details={**record.details, "objects": objects})])
        if not writer.request_repair(view.key, restored, by.name):
            raise WrongState("does not exist any more", object=_subject(view))

    def hold(self, view: ApplicationView, writer: HoldWriter, hold: FieldHold, by: User) -> None:
        """
        Leave a field of an object as it is until a time, whatever Git declares, and all else of it in sync.

        Raise InvalidInput for what is not a field, a time that is over or too far away, and as ``request`` does.
        """
        self.check_operator(view, by)
        subject = _subject(view)
        if not parse_path(hold.field.lstrip(".")):
            raise InvalidInput("a hold needs a field", object=subject, hint="write spec.replicas")
        check_named(by, hold.reason, "to hold a field", subject)
        ahead = hold.until - self._clock.now()
        if not timedelta(0) < ahead <= LONGEST_HOLD:
            hint = "what is to stay longer belongs into Git, or into spec.sync.ignoreDifferences"
            raise InvalidInput("a field is held for 24h at most", object=subject, hint=hint)
        self._audit_hold("hold", view, hold, by, hold.reason)
        if not writer.write_hold(view.key, hold.name, hold.to_annotation()):
            raise WrongState("does not exist any more", object=subject)

    def end_holds(
        self, view: ApplicationView, writer: HoldWriter, holds: Sequence[FieldHold], by: User, reason: str
    ) -> None:
        """End holds now: what differs from Git is drift again. Raise WrongState where there is none to end."""
        self.check_operator(view, by)
        if not holds:
            raise WrongState("no such field is held", object=_subject(view))
        check_named(by, reason, "to end a hold", _subject(view))
        for hold in holds:
            self._audit_hold("unhold", view, hold, by, reason)
            writer.write_hold(view.key, hold.name, "")

    def _audit_hold(self, action: str, view: ApplicationView, hold: FieldHold, by: User, reason: str) -> None:
        record = AuditRecord.by_user(view.key, action, by, self._clock.now(), reason)
        until = f" until {hold.until:%Y-%m-%dT%H:%M:%SZ}" if action == "hold" else ""
        # the record first, as for every request
        self._records.audit([replace(record, resource=hold.ref.path, message=f"{hold.field}{until}")])

    def approve(self, view: ApplicationView, digest: str, approval: Approval) -> datetime:
        """
        Let exactly the plan of a digest, or some steps of it, run once; return until when.

        Raise WrongState where that plan does not wait, Refused where it may not be approved by this user.
        """
        app, plan = _reviewable(view, digest)
        self._check_not_begun(view, digest)
        until = self._reviews.approve(app, plan, approval)
        is_closed = view.verdict is not None and HoldReason.WINDOW in view.verdict.holds
        # a request that is pending runs the plan that it waits for; another one would be for all objects
        if is_closed or _is_requested(view) or _syncs_by_itself(app, plan, view):
            # a manual sync would pass a window that allows manual syncs: an approval opens none, the plan waits for it
            self._writer.poll_now([view.key])
        else:
            self._writer.request_sync(view.key, approval.by.name)
        return until

    def _check_not_begun(self, view: ApplicationView, digest: str) -> None:
        """
        Raise WrongState where a plan was run since the status was written.

        Until the status follows, what the sync wrote looks like drift from a plan that waits again. An approval of that
        would be left, and run the same plan at another time.
        """
        known = int(at(view.status, "audit", "record", default=0))
        intents = self._records.audit_records(view.key, outcome=Outcome.INTENDED.value)
        if any(intent.id > known and intent.digest == digest for intent in intents):
            raise WrongState(
                "no plan waits for approval: it was approved, and runs", object=_subject(view), hint="see its status"
            )

    def reject(self, view: ApplicationView, digest: str, by: User, reason: str) -> None:
        """Hold exactly the plan of a digest until it changes; raise as ``approve`` does."""
        app, plan = _reviewable(view, digest)
        self._reviews.reject(app, plan, by, reason)
        self._writer.poll_now([view.key])

    def revert(
        self, view: ApplicationView, reverts: RevertService, revert: Revert, by: User, reason: str
    ) -> RevertResult:
        """
        Push a commit that reverts these; the controller applies it as any commit of the tracked branch.

        The audit record names the newest reverted commit, and in its details all of them.
        """
        self.check_operator(view, by)
        app = app_of_part(readable(view), revert.source)
        # what the user saw is what is reverted: a commit that came since would be reverted unseen
        if not revert.commits or (revert.shown and revert.commits[0].id != revert.shown):
            raise WrongState(
                "the branch moved since the page was shown", object=_subject(view), hint="open the revert page again"
            )
        record = AuditRecord.by_user(view.key, "revert", by, self._clock.now(), reason or "Revert in Git")
        details = {**record.details, "commits": [commit.id for commit in revert.commits]}
        self._records.audit([replace(record, commit=revert.commits[0].id, details=details)])
        # the record first: a push that fails leaves an intent without an effect, not the reverse
        pushed = reverts.push(app, revert.commits, author=revert.author, branch=revert.branch, reason=reason)
        if not revert.branch:
            # another branch changes nothing before it is merged
            self._writer.poll_now(revert.followers or [view.key])
        return pushed

    def keep(
        self, view: ApplicationView, keeps: KeepService, values: Sequence[ClusterValue], by: User, reason: str
    ) -> ProposedAdoption:
        """Propose values of the cluster to Git, on a branch of their own, in the name of a user."""
        self.check_operator(view, by)
        app = readable(view)
        record = AuditRecord.by_user(view.key, "adopt", by, self._clock.now(), reason or "Keep in Git")
        objects = sorted({str(kept.ref) for kept in values})
        # the record first, as for a revert
        self._records.audit([replace(record, details={**record.details, "objects": objects})])
        return keeps.keep(app, values, author=by.name, reason=reason)

    def propose_update(
        self, view: ApplicationView, updates: Updates, kind: UpdateKind, digest: str, by: User, reason: str
    ) -> UpdateView:
        """Propose an update to Git, exactly as it was shown, in the name of a user; raise as ``Updates.propose``."""
        self.check_operator(view, by)
        app = readable(view)
        word = kind.purpose.word
        record = AuditRecord.by_user(view.key, word, by, self._clock.now(), reason or kind.purpose.subject)
        record = replace(record, digest=digest)
        # on both sides, as each write; by the second one every replica knows what was proposed
        self._records.audit([replace(record, outcome=Outcome.INTENDED)])
        try:
            proposed = updates.propose(UpdateKey(app.key, kind), digest, author=by.name, reason=reason)
        except GitsyncError as error:
            failed = replace(record, outcome=Outcome.FAILED, timestamp=self._clock.now(), message=str(error))
            self._records.audit([failed])
            raise
        record = replace(record, timestamp=self._clock.now())
        details = {**record.details, "branch": proposed.branch, "url": proposed.url}
        self._records.audit([replace(record, commit=proposed.commit, details=details)])
        return proposed

    def check_workload(self, view: ApplicationView, action: WorkloadAction, live: Manifest, by: User) -> Application:
        """
        Return the Application with whose rights a user may act on a live object of it.

        Raise Refused where the user is not an operator, WrongState where the action does not fit the object.
        """
        self.check_operator(view, by)
        check_action(action, live)
        return readable(view)

    def change_workload(
        self, view: ApplicationView, writer: WorkloadWriter, wanted: WorkloadRequest, by: User, reason: str
    ) -> None:
        """Restart a workload or delete a Pod, also while the Application is suspended; raise the errors of a write."""
        app = self.check_workload(view, wanted.action, wanted.live, by)
        check_named(by, reason, f"to {wanted.action.value.replace('-', ' ')}", str(ref_of(wanted.live)))
        record = AuditRecord.by_user(view.key, wanted.action.value, by, self._clock.now(), reason)
        record = replace(record, resource=ref_of(wanted.live).path)
        # on both sides, as each write: without the first it is not made
        self._records.audit([replace(record, outcome=Outcome.INTENDED)])
        try:
            writer.write_of(wanted.action)(app, wanted.live)
        except GitsyncError as error:
            failed = replace(record, outcome=Outcome.FAILED, timestamp=self._clock.now(), message=str(error))
            self._records.audit([failed])
            raise
        self._records.audit([replace(record, timestamp=self._clock.now())])

    def check_operator(self, view: ApplicationView, by: User) -> None:
        """Raise Refused where the policies of an Application name other operators than the user."""
        policy = self._policy_of(view.application or _unreadable(view.key))
        if not may_operate(by, policy):
            who = by.name if by.is_authenticated else "a user without a proven name"
            raise Refused(f"{who} is not one of the operators that policy {policy.name} names", object=_subject(view))


def _unreadable(key: str) -> Application:
    """Return an Application with nothing but its name: policies name it by that, whatever its spec says."""
    namespace, _, name = key.partition("/")
    source = GitSource.model_construct(repo_url="")
    return Application(name, namespace, uid="", generation=0, source=source, destination=Destination())


@dataclass(frozen=True, slots=True)
class Pin:
    """
    The commit that an Application follows from now on, and the revision that it ``followed`` before.

    Of several sources, ``commits`` are those that it joins, by the names of the sources.
    """

    commit: Commit
    followed: str
    commits: Mapping[str, str] = field(default_factory=dict)


class PinWriter(Protocol):
    """What pins an Application to a commit and releases it."""

    def pin(self, key: str, pin: Pin) -> None:
        """Follow the commit of a pin, and remember the revision that was followed."""
        ...

    def unpin(self, key: str, followed: str) -> None:
        """Follow a revision again."""
        ...


class DeletionsWriter(Protocol):
    """What lets the held deletions of an ApplicationSet run."""

    def approve_deletions(self, key: str, id: str) -> None:
        """Approve the deletions of this id."""
        ...


class DeclarationRequests:
    """Requests that change what an Application follows, or what an ApplicationSet deletes."""

    def __init__(self, audit: AuditTrail, clock: Clock) -> None:
        self._audit = audit
        self._clock = clock

    def pin(self, writer: PinWriter, key: str, pin: Pin, by: User, reason: str) -> None:
        """Make an Application follow one commit until it is unpinned, whatever its branch does."""
        # recorded before the write, as every request
        self._record(key, "pin", by, reason or f"Follow {pin.commit.id[:12]}", pin.commit.id)
        writer.pin(key, pin)

    def unpin(self, writer: PinWriter, key: str, followed: str, by: User, reason: str) -> None:
        """Make an Application follow the revision again that it followed before its pin, empty where it has none."""
        if not followed:
            raise WrongState("is not pinned", object=f"Application {key}")
        self._record(key, "unpin", by, reason or f"Follow {followed}")
        writer.unpin(key, followed)

    def approve_deletions(
        self, writer: DeletionsWriter, key: str, held: dict[str, Any] | None, by: User, reason: str
    ) -> None:
        """Approve exactly the deletions that an ApplicationSet holds, as its status lists them."""
        if not held:
            raise WrongState("no deletions wait for approval", object=f"ApplicationSet {key}")
        namespace, _, name = key.partition("/")
        # the key of a set in the audit, as policies name it, so that only those who see the set see the record
        audited = f"{namespace}/applicationset:{name}"
        self._record(audited, "appset approve", by, reason or f"Delete {', '.join(held['names'])}")
        writer.approve_deletions(key, held["id"])

    def _record(self, key: str, action: str, by: User, reason: str, commit: str = "") -> None:
        record = AuditRecord.by_user(key, action, by, self._clock.now(), reason)
        self._audit.audit([replace(record, commit=commit)])


def check_named(by: User, reason: str, what: str, subject: str = "") -> None:
    """Raise InvalidInput for a request without a name or a reason; ``what`` names the request."""
    if not by.name or not reason:
        raise InvalidInput(f"{what} needs a name and a reason", object=subject)


def readable(view: ApplicationView) -> Application:
    """Return the Application of a view; raise WrongState while its spec cannot be read."""
    if view.application is None:
        raise WrongState("the spec cannot be read, so nothing can be reverted", object=_subject(view))
    return view.application


def _subject(view: ApplicationView) -> str:
    return f"Application {view.key}"


def _unobserved(view: ApplicationView) -> WrongState:
    """Return the error for a request that needs the plan of an Application, which is not known here."""
    if not view.unobserved:
        # it was never observed, as just after a start
        return WrongState("its plan is not known yet", object=_subject(view), hint="request it again in a moment")
    return WrongState(
        view.unobserved,
        object=_subject(view),
        hint="request it on the dashboard of that replica (kubectl port-forward pod/NAME 8080)",
    )


def _is_suspended(view: ApplicationView) -> bool:
    """Return whether the spec suspends an Application; while that cannot be read, whether its phase says so."""
    if view.application is not None:
        return view.application.suspend
    return Phase.of(view.status) is Phase.SUSPENDED


def choosable(view: ApplicationView) -> Sequence[Change]:
    """Return the steps of the objects that a user may choose to sync, one for each object; hooks are not among them."""
    steps = view.plan.outstanding if view.plan is not None else ()
    # the step of the commit last: it includes the repair of its object
    return tuple({step.ref: step for step in steps if step.action is not Action.HOOK}.values())


def _is_requested(view: ApplicationView) -> bool:
    """Return whether a sync that an annotation requests has not ended."""
    requested = view.application.requested_sync if view.application is not None else ""
    return requested not in ("", at(view.status, "requestedSync", default=""))


def _reviewable(view: ApplicationView, digest: str) -> tuple[Application, Plan]:
    subject = _subject(view)
    # the status is shared by all replicas; a plan that was observed before may not be the one that waits
    if Phase.of(view.status).is_held and (view.plan is None or (view.unobserved and view.plan.digest != digest)):
        raise _unobserved(view)
    if view.verdict is not None and view.verdict.decision is Decision.REFUSED:
        # an approval cannot lift what a policy forbids, so say that instead of "nothing waits"
        raise WrongState(f"a policy rejects the plan: {'; '.join(view.verdict.reasons)}", object=subject)
    if view.plan is None or view.application is None or not is_held(view):
        raise WrongState("no plan waits for approval", object=subject)
    # an approval is bound to one digest: consent to what was shown does not extend to another plan
    if view.plan.digest != digest:
        raise WrongState(
            "the plan changed since it was shown, so nothing was decided", object=subject, hint="review the new one"
        )
    return view.application, view.plan


def _syncs_by_itself(app: Application, plan: Plan, view: ApplicationView) -> bool:
    """Whether the controller syncs an approved plan without a request: automation is on, and the plan is not drift."""
    # a plan of the revision that is applied already restores what others changed
    is_drift = plan.revision == at(view.status, "revision", "applied", default="")
    return app.sync.automated and (app.sync.self_heal.enabled or not is_drift)
