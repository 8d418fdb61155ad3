"""Plans that wait for a user or a sync window."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitsync.errors import AuditMismatch, GitsyncError, RecordUnavailable
from gitsync.gate.approvals import approvers, may_review
from gitsync.gate.policy import Policy
from gitsync.objects.change import HoldReason, Plan, Review
from gitsync.objects.holds import FieldHold, active_holds
from gitsync.objects.inventory import OwnerKey
from gitsync.objects.manifest import Manifest, at, metadata_of, resource_version_of, uid_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.objects.user import User
from gitsync.ports import ApplicationView, ResourceView
from gitsync.server.backend import Backend
from gitsync.server.formatting import visible
from gitsync.services.reviews import held_plan, is_held

_BEHIND: Final = 10.0
"""Seconds that a replica may observe an Application later than another one: that renders a commit on a busy machine."""
_UNWRITTEN: Final = 3.0
"""Seconds from when a replica shows a plan until its status names it, and other replicas know of it."""
_POLL: Final = 0.1
"""Seconds between two comparisons of a view that is behind, as not every new view is an event."""


def catch_up(engine: Backend, keys: Iterable[str]) -> None:
    """
    Wait until what is shown here of Applications of other replicas is as new as they are, or ``_BEHIND`` is over.

    Their replicas and kubectl may have shown the user what this replica, which observes for itself, does not know yet.
    Without the wait it would refuse a request, or offer another plan. Of processes of one machine, this one observes an
    Application of another only from the first request for it.
    """
    end = time.monotonic() + _BEHIND
    for key in keys:
        if not engine.owns(key):
            _catch_up(engine, key, end)


def _catch_up(engine: Backend, key: str, end: float) -> None:
    compared = None
    while True:
        newest = engine.view.bounds[1]
        view = engine.view.application(key)
        # also one that the user may not see, for which a wait would tell that it exists
        if view is None:
            return
        if view is not compared:
            if compared is None:
                engine.requests.observe(key)
            compared = view
            try:
                application = engine.details.application(key)
            except GitsyncError:
                # it is gone, or the API server is: the request itself reports that
                return
            if _is_of(view, application):
                return
        remaining = end - time.monotonic()
        if remaining <= 0:
            return
        engine.view.wait(newest, min(remaining, _POLL))


def _is_of(view: ApplicationView, application: Manifest) -> bool:
    """Return whether a view was made of an Application as it is now, and shows the plan that its status names."""
    if view.version != resource_version_of(application):
        return False
    if view.plan is None:
        # no commit is planned of one that has none yet, or whose spec is invalid
        return view.application is None or not at(application, "status", "revision", "fetched", default="")
    # objects have watches of their own, which may be behind that of the Application
    return view.plan.digest.startswith(str(at(application, "status", "plan", "id", default="")))


def await_plans(engine: Backend, digests: Mapping[str, str]) -> None:
    """
    Wait until the plans of these digests are shown here, by the keys of their Applications, or ``_UNWRITTEN`` is over.

    The replica that showed a plan to its reviewer may have done so a moment before its status named it.
    """
    catch_up(engine, digests)
    if not engine.is_replica:
        return
    end = time.monotonic() + _UNWRITTEN
    while True:
        # read first: a view that is published from here on has a higher number, so that the wait below ends
        newest = engine.view.bounds[1]
        views = [engine.view.application(key) for key in digests]
        plans = [view.plan.digest if view is not None and view.plan is not None else "" for view in views]
        if plans == [*digests.values()] or not engine.view.wait(newest, end - time.monotonic()):
            return


def view_of_plan(engine: Backend, view: ApplicationView, digest: str) -> ApplicationView:
    """Return an Application once the plan that was reviewed is shown here, else as it is."""
    await_plans(engine, {view.key: digest})
    return engine.view.application(view.key) or view


def needs_approval(view: ApplicationView) -> bool:
    """Tell whether the plan needs approval (possibly among other holds)."""
    return is_held(view) and view.verdict is not None and HoldReason.APPROVAL in view.verdict.holds


def waiting(views: Iterable[ApplicationView]) -> list[ApplicationView]:
    """Return the applications whose plan waits."""
    return [view for view in views if is_held(view)]


def rejection(view: ApplicationView, engine: Backend) -> Review | None:
    """Return the rejection of the plan of an application, None when it was not rejected."""
    return _rejection(engine, view.key, view.plan.digest) if view.plan is not None else None


def _rejection(engine: Backend, key: str, digest: str) -> Review | None:
    try:
        review = engine.records.review(key, digest, engine.clock.now())
    except AuditMismatch:
        return None  # the reconcile reports it
    return review if review is not None and not review.approves else None


def decisions_awaited(engine: Backend) -> int:
    """
    Return how many plans wait for a review: of Applications, Agents and systems.

    Those that were rejected do not; without the records, all that need one count.
    """
    views = filter(needs_approval, engine.view.applications())
    plans = [(view.key, view.plan.digest) for view in views if view.plan is not None]
    for app, plan in map(held_plan, engine.view.held_owners()):
        plans.append((app.key, plan.digest))
    # rather one decision too many than none
    with suppress(RecordUnavailable):
        # every page shows the number: one query for all, as of most plans that wait no review is there yet
        reviewed = engine.records.reviewed([digest for _, digest in plans])
        return sum(plan not in reviewed or _rejection(engine, *plan) is None for plan in plans)
    return len(plans)


def holds_in_force(view: ApplicationView, now: datetime) -> tuple[FieldHold, ...]:
    """Return the fields of an Application that users hold now, those first that end first."""
    holds = view.application.holds if view.application is not None else ()
    # every page asks this of all Applications, and few have any
    return tuple(sorted(active_holds(holds, now), key=lambda hold: (hold.until, hold.name))) if holds else ()


def all_holds(engine: Backend) -> list[tuple[str, FieldHold]]:
    """Return the fields of all Applications that users hold now, with the keys of these."""
    now = engine.clock.now()
    return [(view.key, hold) for view in engine.view.applications() for hold in holds_in_force(view, now)]


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """
    A plan that waits, and what the user who views it may do.

    ``needs_review``: a review would help; ``may_review``: by this user, else by ``approvers``; ``rejected``: by whom.
    """

    view: ApplicationView
    needs_review: bool
    may_review: bool
    approvers: str
    rejected: Review | None


@dataclass(frozen=True, slots=True)
class PendingOwnerPlan:
    """
    The plan of an Agent or system that waits, as its status has it, and what the user who views it may do.

    ``key`` is that of the owner. The status has no steps, only their number and why they wait.
    """

    key: str
    kind: str
    namespace: str
    name: str
    plan: Plan
    steps: int
    reasons: tuple[str, ...]
    may_review: bool
    approvers: str
    rejected: Review | None
    expires_after: float
    """Seconds for which an approval counts."""


def owner_plans(engine: Backend, person: User) -> list[PendingOwnerPlan]:
    """Return the plans of Agents and systems that wait, which the user may see."""
    return [_owner_plan(engine, manifest, person) for manifest in engine.view.held_owners()]


def find_held_owner(engine: Backend, ref: ObjectRef) -> Manifest | None:
    """Return an Agent or system whose plan waits, None where it does not."""
    return next((manifest for manifest in engine.view.held_owners() if ref_of(manifest) == ref), None)


def _owner_plan(engine: Backend, manifest: Manifest, person: User) -> PendingOwnerPlan:
    app, plan = held_plan(manifest)
    status = at(manifest, "status", "plan", default={})
    policy = engine.policies.of(app)
    ref = ref_of(manifest)
    return PendingOwnerPlan(
        key=str(OwnerKey.of_ref(ref)),
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        plan=plan,
        steps=int(status.get("steps", 0)),
        reasons=tuple(map(str, status.get("reasons") or ())),
        may_review=may_review(app, person, policy),
        approvers=approvers(app, policy),
        rejected=_rejection(engine, app.key, plan.digest),
        expires_after=app.risk.approval_ttl,
    )


class PendingPlans:
    """The plans that wait."""

    def __init__(self, engine: Backend) -> None:
        self._engine = engine

    def of(self, view: ApplicationView, person: User) -> PendingPlan:
        """Return what a user may do about a plan that waits."""
        app = view.application
        rejected = rejection(view, self._engine)
        policy = self._engine.policies.of(app) if app is not None else Policy()
        return PendingPlan(
            view,
            needs_review=app is not None and (needs_approval(view) or rejected is not None),
            may_review=app is not None and may_review(app, person, policy),
            approvers=approvers(app, policy) if app is not None else "",
            rejected=rejected,
        )


def reviewer(person: User, typed: str) -> User:
    """Return the reviewer: the signed-in user, else the name that was typed."""
    return person if person.is_authenticated else User(line(typed))


def line(text: str) -> str:
    """Return what was typed as one visible line."""
    # a line break would forge a further line, and invisible characters a name
    return visible(" ".join(text.split()))


# a Deployment has ReplicaSets, and these have Pods
_DEEPEST = 3

Owned = Callable[[str], Iterable[Manifest]]


@dataclass(frozen=True, slots=True)
class PendingDeletion:
    """An object that is being deleted: since when (RFC 3339), what keeps it, and what ends the wait."""

    object: str
    path: str
    since: str
    kept_by: str
    way_out: str


def stuck_deletions(view: ApplicationView, owned: Owned) -> tuple[PendingDeletion, ...]:
    """Return the objects that are deleted, also to be created again, and still there because of finalizers."""
    return tuple(
        _deletion(item, view, owned)
        for item in view.resources
        if metadata_of(item.change.live or {}).get("deletionTimestamp")
    )


def _deletion(item: ResourceView, view: ApplicationView, owned: Owned) -> PendingDeletion:
    metadata = metadata_of(item.change.live or {})
    finalizers = ", ".join(map(str, metadata.get("finalizers") or ())) or "the API server"
    # kubernetes.io/pvc-protection keeps a claim as long as a Pod mounts it
    users = mounted_by(item, view, owned) if item.ref.kind == "PersistentVolumeClaim" else ()
    kept_by = f"finalizer {finalizers}"
    way_out = "the controller that owns the finalizer has to remove it"
    if users:
        kept_by = f"{finalizers}: still mounted by {', '.join(users)}"
        way_out = "remove or restart the workloads that mount it"
    return PendingDeletion(
        visible(item.ref), item.ref.path, str(metadata["deletionTimestamp"]), visible(kept_by), visible(way_out)
    )


def mounted_by(item: ResourceView, view: ApplicationView, owned: Owned) -> tuple[str, ...]:
    """Return the Pods of the application that mount a claim."""
    pods = []
    for other in view.resources:
        # a Pod mounts claims of its own namespace only
        if other.ref.namespace == item.ref.namespace and other.change.live is not None:
            pods += [part for part in _below(other.change.live, owned, _DEEPEST) if part.get("kind") == "Pod"]
    return tuple(f"Pod {ref_of(pod).name}" for pod in pods if item.ref.name in _claims(pod))


def _below(manifest: Manifest, owned: Owned, depth: int) -> Iterable[Manifest]:
    yield manifest
    for part in owned(uid_of(manifest)) if depth else ():
        yield from _below(part, owned, depth - 1)


def _claims(pod: Manifest) -> set[str]:
    volumes = at(pod, "spec", "volumes", default=[]) or []
    return {str(at(volume, "persistentVolumeClaim", "claimName", default="")) for volume in volumes}
