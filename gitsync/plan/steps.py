"""The step of a sync for one declared object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gitsync.errors import GitsyncError, TerminalError
from gitsync.kube.immutable import immutable_fields
from gitsync.merge.schema import Schema
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change, Risk
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.options import Deletion, HookPhase, Options, Reconcile
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import Drift, compare_objects, find_drift, stores_as_declared
from gitsync.plan.explain import explain_atomic_lists
from gitsync.plan.field_owners import owners_of
from gitsync.plan.ignored_fields import IgnoredFields, ignored_differences, without_ignored, without_ignored_fields
from gitsync.plan.options import options_of
from gitsync.plan.order import hook_stage, stage_of
from gitsync.plan.ownership import APPLIERS, Transfer, transfer
from gitsync.plan.risk.table import NOTHING
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.plan.undeclared import Undeclared, removal_reason

UNOBSERVED: Final = "its live state is unknown, since its API group is unavailable"

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


@dataclass(frozen=True, slots=True)
class PlanInput:
    """
    What a plan is computed from; ``desired`` comes from ``desired_objects``, ``options`` are those of each of it.

    ``expected`` are patterns of field managers that may add fields, by the operator's policy. ``replaces`` is that of
    the plan.
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

    @property
    def undeclared(self) -> Undeclared:
        """What happens to fields that others added."""
        return Undeclared(self.app.sync.undeclared_fields, self.expected)


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
    elif ref in cluster.unobserved:
        yield replace(step, reason=UNOBSERVED, unobserved=cluster.unobserved[ref])
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


def _update(inputs: PlanInput, step: Change, live: Manifest, last: Manifest | None) -> Change:
    """Return the step for an object that exists."""
    desired = inputs.desired[step.ref]
    app = inputs.app
    cluster = inputs.cluster
    options = step.options
    schema = inputs.schema_of(desired)
    answer = cluster.dry_runs.get(step.ref)
    if options.force and isinstance(answer, GitsyncError) and (fields := immutable_fields(answer)):
        found = find_drift(desired, live, schema).differences
        return replace(step, action=Action.REPLACE, differences=found, reason=f"{fields} cannot be changed in place")
    exceptions = IgnoredFields(app.sync.ignore, options.ignore)
    sent, left = without_ignored_fields(exceptions, desired, live, schema)
    moved = transfer(live, str(desired.get("apiVersion")), schema, cluster.appliers, left)
    if isinstance(answer, dict) and moved is None:
        drift = compare_objects(answer, live, schema, app.field_manager)
    elif moved is None:
        is_stored = last is not None and stores_as_declared(last, live, schema, app.field_manager)
        drift = find_drift(sent, live, schema, app.field_manager, is_stored=is_stored)
    else:
        drift = _drift_after(moved, sent, live, schema, app.field_manager)
    ignored = without_ignored(exceptions, sent, live, schema, drift)
    drift = ignored.drift
    adopts = step.ref not in inputs.inventory and not is_owned(app, live)
    is_stable = moved is None and not adopts  # both writes name the resourceVersion, so only one fits a sync
    removed = inputs.undeclared.removed(desired, live, schema, exceptions) if is_stable else ()
    found = (*drift.differences, *removed, *ignored_differences(desired, live, schema, left))
    if found:
        step = replace(step, differences=found, removed=tuple(item.pointer for item in removed))
    if drift.in_sync and drift.owned and not removed and not (moved and moved.taken_from):
        return step  # giving up a field waits for the next apply: until then nothing depends on it
    owner = owner_of(live)
    applied_by = f"was applied by {owner}" if adopts and owner else ""
    reasons = (applied_by, moved.reason if moved else "", removal_reason(removed), explain_atomic_lists(found))
    return replace(
        step,
        desired=ignored.desired,
        action=Action.ADOPT if adopts else Action.UPDATE,
        reason="; ".join(filter(None, reasons)),
        certain=isinstance(answer, dict) or (not options.force and _is_certain(drift, adopts, moved, removed)),
        inferred=drift.inferred,
        problem=str(answer) if isinstance(answer, TerminalError) else "",
        managed_fields=moved.managed_fields if moved else None,
    )


def _is_certain(drift: Drift, adopts: bool, moved: Transfer | None, removed: Collection[object]) -> bool:
    """Whether a step changes the object for sure, which a dry run need not confirm."""
    return adopts or moved is not None or bool(removed) or (drift.certain and not drift.in_sync)


def _drift_after(moved: Transfer, desired: Manifest, live: Manifest, schema: Schema | None, manager: str) -> Drift:
    """Return the drift once ownership is transferred, with the managers that own each field now."""
    drift = find_drift(desired, moved.of(live), schema, manager)
    owners = owners_of(live, manager)
    differences = zip(drift.differences, drift.paths, strict=True)
    named = (replace(found, owners=owners.of(path) if found.owners else ()) for found, path in differences)
    return replace(drift, differences=tuple(named))
