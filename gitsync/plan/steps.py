"""The step of a sync for one declared object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gitsync.errors import GitsyncError, TerminalError
from gitsync.kube.messages import immutable_fields, is_misfit
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change, Difference, FieldDifference, Risk
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, metadata_of, resource_version_of
from gitsync.objects.options import Deletion, HookPhase, Options, Reconcile
from gitsync.objects.ref import ObjectRef
from gitsync.plan.dependent_members import stale_members
from gitsync.plan.drift import (
    IN_SYNC,
    Drift,
    Path,
    compare_objects,
    declared_fields,
    find_drift,
    inexact_drift,
    is_exact,
    owned_beside_ignored,
    stores_as_declared,
)
from gitsync.plan.explain import explain_atomic_lists
from gitsync.plan.field_owners import applied_fields, owners_of
from gitsync.plan.ignored_fields import (
    IgnoredFields,
    as_spelled,
    ignored_differences,
    without_ignored,
    without_ignored_fields,
)
from gitsync.plan.options import options_of
from gitsync.plan.order import hook_stage, stage_of
from gitsync.plan.ownership import APPLIERS, Transfer, transfer, with_claimed
from gitsync.plan.risk.table import NOTHING
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.plan.undeclared import Undeclared, UndeclaredState, has_other_clients, removal_reason

UNOBSERVED: Final = "its live state is unknown"

SchemaOf = Callable[[Manifest], Schema | None]
"""The schema of a manifest's kind and version, None when it is not known."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """
    The complete observed state of the cluster: live objects by ref, and the answers to dry runs.

    A dry run's answer is the object the API server would store, or the error it returned. ``claims`` names the other
    Application (``namespace/name``) that declares an object in Git now. ``appliers`` are the field managers whose
    fields of declared objects become ours. ``unobserved`` are the objects that are not known to exist or to be absent,
    with the reason. ``finished`` are those that their TTL deletes or has deleted after they ended.
    """

    live: Mapping[ObjectRef, Manifest]
    dry_runs: Mapping[ObjectRef, Manifest | GitsyncError] = field(default_factory=dict)
    claims: Mapping[ObjectRef, str] = field(default_factory=dict)
    appliers: frozenset[str] = APPLIERS
    unobserved: Mapping[ObjectRef, str] = field(default_factory=dict)
    finished: Mapping[ObjectRef, HealthStatus] = field(default_factory=dict)
    repair_dry_runs: Mapping[ObjectRef, Manifest | GitsyncError] = field(default_factory=dict)
    """Those of states that were applied last, of objects of which Git declares another state."""
    refused: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The resourceVersions at which the API server rejected an apply of an object as invalid."""
    left_to: Mapping[ObjectRef, str] = field(default_factory=dict)
    """The Application that an object belongs to once it exists, of those that several declare."""
    rejections: Mapping[ObjectRef, str] = field(default_factory=dict)
    """Why the API server, or an admission webhook, rejected objects at the last attempt."""
    readers: Mapping[ObjectRef, str] = field(default_factory=dict)
    """What still reads a ConfigMap or Secret that Git no longer declares, as a sentence about it."""


@dataclass(frozen=True, slots=True)
class PlanInput:
    """
    What a plan is computed from; ``desired`` comes from ``desired_objects``, ``options`` are those of each of it.

    ``expected`` are patterns of field managers that may add fields, by the operator's policy, and ``users`` those of
    users. ``replaces`` is that of the plan.
    """

    app: Application
    desired: Mapping[ObjectRef, Manifest]
    options: Mapping[ObjectRef, Options]
    cluster: ClusterState
    inventory: Inventory
    schema_of: SchemaOf
    expected: tuple[str, ...] = ()
    replaces: str = ""
    applied: Mapping[ObjectRef, Manifest] = field(default_factory=dict)
    """The states that were applied last, where they are known; see ``plan.applied``."""
    repairs_below: Risk | None = None
    """The class from which the policy of the operator requires an approval of repairs too."""
    users: tuple[str, ...] = ()
    is_applied: bool = False
    """Whether the commit was applied completely before."""

    @property
    def undeclared(self) -> Undeclared:
        """What happens to fields that others added."""
        return Undeclared(self.app.sync.undeclared_fields or "", self.expected, self.users)


def steps_of(inputs: PlanInput, ref: ObjectRef, last: Manifest | None = None) -> Iterable[Change]:
    """
    Yield the steps for one declared object: one, or one for each phase of a hook.

    ``last`` is what was declared before, while the object was as declared.
    """
    cluster = inputs.cluster
    manifest = inputs.desired[ref]
    options = inputs.options[ref]
    live = cluster.live.get(ref)
    if options.hooks:
        for phase in options.hooks:
            rests = _skip_reason(inputs.app, phase, ref, inputs.desired)
            yield Change(
                ref,
                Action.NOTHING if rests else Action.HOOK,
                reason=f"{phase.value} hook{rests}",
                stage=hook_stage(phase),
                wave=options.wave,
                desired=manifest,
                live=live,
                options=options,
            )
        return
    step = Change(
        ref,
        Action.NOTHING,
        rule=NOTHING,
        stage=stage_of(ref.of),
        wave=options.wave,
        desired=manifest,
        live=live,
        options=options,
    )
    if options.reconcile is Reconcile.NEVER:
        yield replace(step, reason="its annotation disables reconciling")
    # Before the next cases: unknown must never be taken for absent.
    elif ref in cluster.unobserved:
        yield replace(step, reason=UNOBSERVED, unobserved=cluster.unobserved[ref])
    # Before a create: what its TTL deleted would run again with each sync.
    elif ref in cluster.finished:
        yield replace(step, reason=cluster.finished[ref].message, finished=cluster.finished[ref])
    elif live is None:
        answer = cluster.dry_runs.get(ref)
        yield replace(step, action=Action.CREATE, problem=str(answer) if isinstance(answer, GitsyncError) else "")
    elif options.reconcile is Reconcile.ONCE:
        yield replace(step, reason="exists, and its annotation allows creating it only")
    elif metadata_of(live).get("deletionTimestamp"):
        yield replace(step, action=Action.CREATE, reason="recreated once the object that is being deleted is gone")
    else:
        yield _update(inputs, step, live, last)


def _skip_reason(app: Application, phase: HookPhase, ref: ObjectRef, desired: Mapping[ObjectRef, Manifest]) -> str:
    """Return why a hook does not run in this plan, empty when it does."""
    if phase.is_of_deletion is app.is_deleted:
        return ""
    if not phase.is_of_deletion:
        return ": runs in syncs only"
    if not app.sync.deletes_with_application:
        member = "sync.preserveResourcesOnDeletion is on" if app.sync.prune else "sync.prune is off"
        return f": does not run, since {member} and deleting the Application deletes nothing"
    if phase is HookPhase.POST_DELETE and loses_namespace(app, ref, desired):
        return f": cannot run, since its Namespace {ref.namespace} is deleted before it; put the hook elsewhere"
    return ": runs when the Application is deleted"


def loses_namespace(app: Application, ref: ObjectRef, desired: Mapping[ObjectRef, Manifest]) -> bool:
    """Whether the namespace of an object is declared too, and so is deleted with the Application."""
    namespace = desired.get(ObjectRef("", "Namespace", "", ref.namespace))
    if namespace is None or not is_owned(app, namespace):
        return False
    return Deletion.KEEP not in (options_of(namespace).delete, options_of(namespace).prune)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """How a live object differs from the declared one, and what an apply has to do beside setting its fields."""

    drift: Drift
    desired: Manifest
    """What is sent: the declared object, with live values where ignored fields are part of an atomic value."""
    transfer: Transfer | None
    removed: tuple[FieldDifference, ...]
    """Fields that a patch removes before the apply."""
    ignored: tuple[FieldDifference, ...]
    """Differences of fields that Git leaves to others."""

    @property
    def differences(self) -> tuple[FieldDifference, ...]:
        """All differences, also those that are shown only."""
        return (*self.drift.differences, *self.removed, *self.ignored)

    @property
    def is_as_declared(self) -> bool:
        """
        Whether nothing has to be written.

        Giving up a field waits for the next apply: until then nothing depends on it.
        """
        takes_over = self.transfer is not None and bool(self.transfer.taken_from)
        return self.drift.in_sync and self.drift.owned and not self.removed and not takes_over

    def is_certain(self, *, adopts: bool) -> bool:
        """Whether a step changes the object for sure, which a dry run need not confirm."""
        has_more = adopts or self.transfer is not None or bool(self.removed)
        return has_more or (self.drift.certain and not self.drift.in_sync)


def replacing(step: Change, answer: GitsyncError) -> Change | None:
    """Return a step that deletes its object and creates it again, None where the answer to an apply needs no such."""
    fields = "what is stored does not fit its definition, and" if is_misfit(answer) else immutable_fields(answer)
    if step.live is None or not fields:
        return None
    return replace(step, action=Action.REPLACE, reason=f"{fields} cannot be changed in place")


def _update(inputs: PlanInput, step: Change, live: Manifest, last: Manifest | None) -> Change:
    """Return the step for an object that exists."""
    desired = inputs.desired[step.ref]
    answer = inputs.cluster.dry_runs.get(step.ref)
    force = step.options.force
    # Only where the API server refused the change in place: a replace deletes the object.
    if force and isinstance(answer, GitsyncError) and (replaced := replacing(step, answer)) is not None:
        differences = find_drift(desired, live, inputs.schema_of(desired)).differences
        return replace(replaced, differences=differences)
    adopts = step.ref not in inputs.inventory and not is_owned(inputs.app, live)
    comparison = _compare(inputs, step, live, last, adopts=adopts)
    differences = comparison.differences
    removed = tuple(item.pointer for item in comparison.removed)
    if comparison.is_as_declared:
        # The identical step where there is nothing to show: the planner makes thousands of them.
        return replace(step, differences=differences, removed=removed) if differences else step
    moved = comparison.transfer
    return replace(
        step,
        differences=differences,
        removed=removed,
        desired=comparison.desired,
        action=Action.ADOPT if adopts else Action.UPDATE,
        reason=_update_reason(comparison, owner_of(live) if adopts else ""),
        certain=isinstance(answer, dict) or (not force and comparison.is_certain(adopts=adopts)),
        inferred=comparison.drift.inferred,
        # the answer was given before fields of users are taken over, which may be why it is a refusal
        problem=str(answer) if isinstance(answer, TerminalError) and moved is None else "",
        managed_fields=moved.managed_fields if moved else None,
    )


def _compare(inputs: PlanInput, step: Change, live: Manifest, last: Manifest | None, *, adopts: bool) -> _Comparison:
    """Return how a live object differs; a dry run's answer counts unless ownership is transferred first."""
    desired = inputs.desired[step.ref]
    schema = inputs.schema_of(desired)
    manager = inputs.app.field_manager
    exceptions = IgnoredFields.of(inputs.app, step.ref, step.options)
    sent, ignored_paths = without_ignored_fields(exceptions, desired, live, schema)
    answer = inputs.cluster.dry_runs.get(step.ref)
    is_in_sync = is_exact(sent, live, schema, manager)
    is_plain = not ignored_paths and answer is None and inputs.app.sync.undeclared_fields != "Remove"
    # Nearly every object of nearly every plan ends here: what follows could find nothing.
    if is_in_sync and is_plain and not has_other_clients(live, inputs.cluster.appliers, inputs.users):
        return _Comparison(IN_SYNC, sent, None, (), ())
    spelled: tuple[Path, ...] = ()
    if not is_in_sync and schema is not None:
        sent, spelled = as_spelled(sent, live, schema)
    undeclared = inputs.undeclared
    state = UndeclaredState(sent, live, schema, manager)
    # Of this version alone: after any other write the apply may be valid, and is tried first.
    is_refused = inputs.cluster.refused.get(step.ref) == resource_version_of(live)
    taken_over = undeclared.taken_over(state, exceptions, is_refused=is_refused)
    version = str(desired.get("apiVersion"))
    moved = transfer(live, version, schema, inputs.cluster.appliers, ignored_paths, taken_over, manager=manager)
    # Only a new value makes a member stale: nearly every object of nearly every reconcile has none.
    if not is_in_sync:
        stale = stale_members(schema, sent, live, manager)
        moved = with_claimed(moved, live, version, schema, stale, manager=manager)
    if moved is not None:
        drift = _drift_after(moved, sent, live, schema, manager)
    elif isinstance(answer, dict):
        drift = compare_objects(answer, live, schema, manager)
    elif is_in_sync:
        drift = IN_SYNC
    else:
        is_stored = last is not None and stores_as_declared(last, live, schema, manager)
        drift = inexact_drift(sent, live, schema, manager, is_stored=is_stored)
    remaining = without_ignored(exceptions, sent, live, schema, drift)
    ignored = ignored_differences(desired, live, schema, ignored_paths)
    if moved is None and isinstance(answer, dict):
        # The dry run was sent with the live values of ignored fields, so that its answer does not differ in them: the
        # apply would send the declared ones, unseen.
        asked = without_ignored(exceptions, sent, live, schema, find_drift(sent, live, schema, manager))
        remaining = replace(remaining, desired=asked.desired)
        ignored += tuple(item for item in asked.drift.differences if item.kind is Difference.IGNORED)
    if moved is None and not remaining.drift.owned and remaining.drift.in_sync:
        wanted = declared_fields(sent, schema or DEDUCED)
        if isinstance(answer, dict):
            wanted = applied_fields(answer, manager)
        remaining = replace(remaining, drift=owned_beside_ignored(remaining.drift, wanted, live, manager, spelled))
    # a transfer and the removal of fields both name the resourceVersion, so only one of them fits a sync
    is_stable = moved is None and not adopts
    removed = undeclared.removed(desired, live, schema, exceptions) if is_stable else ()
    return _Comparison(remaining.drift, remaining.desired, moved, removed, ignored)


def _update_reason(comparison: _Comparison, previous_owner: str) -> str:
    """Return what is special about an update, empty where nothing is."""
    moved = comparison.transfer
    reasons = (
        f"was applied by {previous_owner}" if previous_owner else "",
        moved.reason if moved else "",
        removal_reason(comparison.removed),
        explain_atomic_lists(comparison.differences),
    )
    return "; ".join(filter(None, reasons))


def _drift_after(moved: Transfer, desired: Manifest, live: Manifest, schema: Schema | None, manager: str) -> Drift:
    """Return the drift once ownership is transferred, with the managers that own each field now."""
    drift = find_drift(desired, moved.of(live), schema, manager)
    owners = owners_of(live, manager)
    differences = zip(drift.differences, drift.paths, strict=True)
    named = (replace(item, owners=owners.of(path) if item.owners else ()) for item, path in differences)
    return replace(drift, differences=tuple(named))
