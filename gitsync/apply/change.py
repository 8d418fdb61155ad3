"""One step of a plan: what is requested, how it is carried out, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gitsync.errors import AlreadyExists, ClusterUnavailable, Conflict, GitsyncError, Rejected, detached
from gitsync.kube.messages import immutable_fields, is_misfit, removed_version
from gitsync.objects.application import Application
from gitsync.objects.change import DRIFT, Action, Change, Plan
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import InventoryEntry
from gitsync.objects.manifest import Manifest, content_hash, uid_of
from gitsync.objects.record import Commit, Outcome
from gitsync.objects.ref import ObjectRef
from gitsync.plan.mask import mask_text
from gitsync.plan.ownership import at_version
from gitsync.plan.risk.table import classify
from gitsync.plan.steps import replacing
from gitsync.ports import Cluster, LiveCache

_OF_THE_SERVER = frozenset({"apiVersion", "kind", "metadata", "status"})
"""Members that are short, or that differ."""


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """
    One sync of one Application.

    ``widen_inventory`` adds refs to the inventory and returns once it is stored; ``health`` returns the health of a
    live object. ``on_result`` is called with each result before its outcome is audited, which may fail.
    ``creates_only``: a CREATE fails, and changes nothing, where an object of its name exists already.
    ``plans_again``: a step whose object changed since it was planned is left to the next plan, and has not failed.
    ``trigger`` and ``initiator`` are those of the record that the sync gets in the history, empty where it gets none.
    """

    app: Application
    plan: Plan
    commit: Commit
    sync: str
    versions: Mapping[ObjectRef, str]
    widen_inventory: Callable[[Mapping[ObjectRef, InventoryEntry]], None]
    health: Callable[[ObjectRef, Manifest], HealthStatus]
    approver: str = ""
    trigger: str = ""
    initiator: str = ""
    creates_only: bool = False
    plans_again: bool = False
    on_result: Callable[[StepResult], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class StepResult:
    """
    The result of one step; ``live`` is the object after the write, ``error`` why it failed.

    ``is_blocked`` is set where it was not tried, since a step failed that it depends on.
    """

    change: Change
    outcome: Outcome
    message: str = ""
    live: Manifest | None = None
    error: GitsyncError | None = None
    duration_ms: int = 0
    is_blocked: bool = False

    @property
    def is_unknown(self) -> bool:
        """Whether a failed write may have taken effect: its response was lost."""
        return isinstance(self.error, ClusterUnavailable)

    @property
    def is_outdated(self) -> bool:
        """Whether the object changed since the step was planned, so that another plan tells what is to be written."""
        # not of its subclasses: an object that exists, or a namespace that is being deleted, is there in the next plan
        return type(self.error) is Conflict and _names_version(self.change)


@dataclass(frozen=True, slots=True)
class ApplyProgress:
    """
    The results of one apply pass.

    ``waiting`` is what the next batch waits for; a watch event, not a thread, resumes the plan. ``peers`` are
    the other Applications that a prune waits for. ``is_outdated``: it waits for a plan that knows how an object
    changed meanwhile; ``is_polled``: for what no event reports.
    """

    results: tuple[StepResult, ...] = ()
    waiting: str = ""
    peers: tuple[str, ...] = ()
    is_outdated: bool = False
    is_polled: bool = False


_PRUNED_AT_OLD_VERSION = "failed to convert merged object to last applied version"
"""The answer of structured-merge-diff (merge/update.go) where a new version of a kind has fields of its own."""
_TRIES = 5  # attempts of one write; after that many conflicts the object is planned again


def apply_change(request: ApplyRequest, change: Change, cluster: Cluster, live: LiveCache) -> StepResult:
    """
    Apply or delete one object. Never raises: errors are part of the result.

    A conflict is retried at once where the write names no resourceVersion, and so is a write whose response was lost,
    since an apply repeats the same fields, a delete names the uid, and a create never changes what exists. A create or
    a step of several writes may then conflict with what it wrote itself: its outcome is unknown.
    """
    if change.problem:
        return StepResult(change, Outcome.FAILED, mask_text(change.problem, (change.desired, change.live)))
    began = time.monotonic()
    try:
        written = _with_retries(lambda: _write(request, change, cluster), _tries(change))
    except GitsyncError as error:
        message = mask_text(str(error), (change.desired, change.live))
        return StepResult(change, Outcome.FAILED, message, error=error, duration_ms=_elapsed_ms(began))
    # the response goes into the local copies at once: the next reconcile must not act on the object before it
    resource = cluster.resource(change.ref.group, request.versions[change.ref], change.ref.kind)
    if written is not None and change.desired is not None:
        written = _sharing(written, change.desired)
    if resource is not None and written is not None:
        live.observe_write(resource, written)
    elif resource is not None and change.live is not None:
        live.observe_delete(resource, change.live)
    return StepResult(change, Outcome.SUCCEEDED, change.reason, live=written, duration_ms=_elapsed_ms(began))


@dataclass(frozen=True, slots=True)
class DryRun:
    """Asks the API server what it would do with single steps, with the rights of their Application."""

    cluster: Cluster

    def of(self, app: Application, change: Change, *, replaces: bool = False) -> StepResult:
        """
        Return what the API server answers to a step, and write nothing. Never raises: errors are part of the result.

        With ``replaces``, an object that cannot be changed in place would be deleted and created again.
        """
        began = time.monotonic()
        try:
            step = self._ask(app, change, replaces=replaces)
        except GitsyncError as error:
            message = mask_text(str(error), (change.desired, change.live))
            return StepResult(change, Outcome.FAILED, message, error=error, duration_ms=_elapsed_ms(began))
        return StepResult(step, Outcome.SUCCEEDED, step.reason, duration_ms=_elapsed_ms(began))

    def _ask(self, app: Application, change: Change, *, replaces: bool) -> Change:
        """Return the step as it would be carried out; raise the errors of ``Cluster.apply`` and ``delete``."""
        user = impersonated(app)
        if change.desired is None:
            # a release sends a patch, which has no other outcome than the plan says
            if change.action is Action.PRUNE and change.live is not None:
                self._delete(change.ref, change.live, user)
            return change
        try:
            self.cluster.apply(change.desired, manager=app.field_manager, dry_run=True, user=user)
        except Rejected as error:
            recreated = replacing(change, error) if replaces or change.action is Action.REPLACE else None
            if recreated is None or recreated.live is None:
                raise
            # its successor cannot be asked for while it exists
            self._delete(change.ref, recreated.live, user)
            return classify(recreated, app.risk.rules)
        return change

    def _delete(self, ref: ObjectRef, live: Manifest, user: str) -> None:
        version = str(live["apiVersion"]).rpartition("/")[2]
        self.cluster.delete(ref, version, uid=uid_of(live), user=user, dry_run=True)


def _sharing(written: Manifest, desired: Manifest) -> Manifest:
    """
    Return a written object with the very members of the declared one that it has too, such as the data of a ConfigMap.

    While it is in sync both are in memory, and nothing changes either.
    """
    same = {
        name: desired[name]
        # by their JSON: for Python, true and 1 are equal, too
        for name in (written.keys() & desired.keys()) - _OF_THE_SERVER
        if content_hash(written[name]) == content_hash(desired[name])
    }
    return {**written, **same}


def impersonated(app: Application) -> str:
    """Return the user whose rights count for an application's writes; empty means the controller's own."""
    account = app.destination.service_account
    return f"system:serviceaccount:{app.account_namespace or app.namespace}:{account}" if account else ""


def _write(request: ApplyRequest, change: Change, cluster: Cluster) -> Manifest | None:
    ref = change.ref
    user = impersonated(request.app)
    if change.action is Action.PRUNE:
        if change.live is None:
            raise ValueError(f"{change.ref}: a prune needs the live object")
        in_foreground = request.app.deletes_in_foreground
        return cluster.delete(ref, request.versions[ref], uid=uid_of(change.live), user=user, foreground=in_foreground)
    if change.action is Action.RELEASE:
        return cluster.release(change, manager=request.app.field_manager, user=user)
    if change.desired is None:
        raise ValueError(f"{change.ref}: a write needs the desired object")
    # first: after a client-side apply another manager owns the same fields, and an apply would only share them,
    # so that a field which leaves Git later would stay
    live = change.live
    if change.managed_fields is not None and live is not None:
        live = cluster.set_managed_fields(live, change.managed_fields, manager=request.app.field_manager, user=user)
    # server-side apply removes no field that another manager owns
    if change.removed and live is not None:
        # at the version that the transfer made: with the planned one the removal would conflict with it
        live = cluster.remove_fields(live, change.removed, manager=request.app.field_manager, user=user)
        if all(difference.pointer in change.removed for difference in change.differences if difference.kind in DRIFT):
            return live
    # an apply would take over an object that another client created since it was planned
    if change.action is Action.CREATE and request.creates_only:
        return cluster.create(change.desired, manager=request.app.field_manager, user=user)
    if change.action is Action.REPLACE:
        return _replace(request, change, change.desired, cluster, user)
    return _apply(request, change, change.desired, cluster, user)


def _apply(request: ApplyRequest, change: Change, desired: Manifest, cluster: Cluster, user: str) -> Manifest:
    """Apply; where the API server would convert fields from an older version, move them to this one first."""
    manager = request.app.field_manager
    try:
        return cluster.apply(desired, manager=manager, user=user)
    except Rejected as error:
        removed = removed_version(error)
        moved = at_version(change.live or {}, manager, str(desired["apiVersion"]), removed)
        is_of_version = bool(removed) or _PRUNED_AT_OLD_VERSION in error.message
        if change.live is None or moved is None or not is_of_version:
            raise
    cluster.set_managed_fields(change.live, moved, manager=manager, user=user)
    return cluster.apply(desired, manager=manager, user=user)


def _replace(request: ApplyRequest, change: Change, desired: Manifest, cluster: Cluster, user: str) -> Manifest:
    """
    Apply; when the API server rejects an immutable field, delete the object and create it.

    Return the object on its way out when finalizers hold it: the next plan creates it once it is gone.
    """
    try:
        return cluster.apply(desired, manager=request.app.field_manager, user=user)
    except Rejected as error:
        if change.live is None or not (immutable_fields(error) or is_misfit(error)):
            raise
    # by uid: what another client created in its place since it was planned stays
    leaving = cluster.delete(change.ref, request.versions[change.ref], uid=uid_of(change.live), user=user)
    return leaving or cluster.apply(desired, manager=request.app.field_manager, user=user)


def _tries(change: Change) -> int:
    """Return how often a write is tried while it conflicts."""
    # the resourceVersion of the live object as it was planned conflicts in each further attempt too
    return 1 if _names_version(change) else _TRIES


def _names_version(change: Change) -> bool:
    """Whether the writes of a step name the resourceVersion of the live object as it was planned."""
    return change.managed_fields is not None or bool(change.removed) or change.action is Action.RELEASE


def _with_retries(write: Callable[[], Manifest | None], tries: int) -> Manifest | None:
    lost: ClusterUnavailable | None = None
    while True:
        tries -= 1
        try:
            return write()
        except Conflict as error:
            # what conflicts now may be our own first write, so that the outcome is unknown and not a conflict
            if lost is not None:
                raise detached(lost) from error
            # an object that exists is not a race: it would exist in each further attempt too
            if isinstance(error, AlreadyExists) or tries <= 0:
                raise
        except ClusterUnavailable as error:
            # a delay means that the API server asked to retry later
            if lost is not None or error.retry_after is not None:
                raise
            # without one the connection was lost: one more attempt tells whether the first arrived
            lost = detached(error)


def _elapsed_ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
