"""Build the plan: the step of a sync for every object, in order, with class, reason and digest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gitsync.errors import GitsyncError, TerminalError
from gitsync.kube.immutable import immutable_fields
from gitsync.merge.schema import Schema
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.health import HealthStatus
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import TRACKING_ID
from gitsync.objects.manifest import Manifest, content_hash, metadata_of, resource_version_of, uid_of
from gitsync.objects.options import DEFAULT, Deletion, HookPhase, Options, Reconcile
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan import jq_paths
from gitsync.plan.drift import Drift, compare_objects, find_drift, stores_as_declared
from gitsync.plan.explain import explain, explain_atomic_lists
from gitsync.plan.field_owners import owners_of
from gitsync.plan.hook_needs import needs_first
from gitsync.plan.ignored_fields import IgnoredFields, ignored_differences, without_ignored, without_ignored_fields
from gitsync.plan.normalize import declared
from gitsync.plan.options import options_of
from gitsync.plan.order import hook_stage, in_order, prune_stage, sort_key, stage_of
from gitsync.plan.ownership import APPLIERS, Transfer, transfer
from gitsync.plan.prune import prune_changes
from gitsync.plan.risk.table import NOTHING, Scope, classify, plan_risk
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.plan.undeclared import Undeclared, removal_reason

_HASH = re.compile(r"-[a-z0-9]{10}$", re.ASCII)
_GENERATED = re.compile(r"-[2456789bcdfghkmt]{10}$", re.ASCII)
"""The suffix that Kustomize gives to names; its alphabet has no other characters."""

_UNOBSERVED: Final = "its live state is unknown, since its API group is unavailable"

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

    @property
    def undeclared(self) -> Undeclared:
        """What happens to fields that others added."""
        return Undeclared(self.app.sync.undeclared_fields, self.expected)


def build_plan(inputs: PlanInput, revision: str, previous: Plan | None = None) -> Plan:
    """
    Return what a sync of this revision would do with every declared and every held object.

    Steps of ``previous`` whose desired and live objects are unchanged are
    reused, so planning a second time costs next to nothing. Nothing outside the inventory is pruned. Raise
    InvalidInput when an annotation or a path to ignore is not valid.
    """
    app = inputs.app
    desired = inputs.desired
    cluster = inputs.cluster
    for rule in app.sync.ignore:
        for expression in rule.jq_paths:
            jq_paths.parse(expression)
    known = {change.ref: change for change in previous.changes} if previous else {}
    steps: list[Change] = []
    fresh: list[Change] = []
    live_of = cluster.live.get
    dry_runs = cluster.dry_runs
    options = inputs.options
    for ref, manifest in desired.items():
        again = known.get(ref)
        if (
            again is None
            or (dry_runs and ref in dry_runs)
            or not _is_unchanged(again, manifest, live_of(ref), options[ref])
        ):
            fresh += _steps(inputs, ref, _last_declared(again, manifest))
        else:
            steps.append(again)
    fresh += prune_changes(app, desired, cluster.live, inputs.inventory, cluster.claims)
    fresh += _unobserved_changes(cluster.unobserved, desired)
    before = predecessors(fresh)
    scope = Scope(app, desired, cluster.live)
    if before:
        fresh = [paired(step, before.get(family(step.ref)), inputs.schema_of) for step in fresh]
        fresh = [classify(step, app.risk.rules, before.get(family(step.ref)), scope) for step in fresh]
    else:
        fresh = [classify(step, app.risk.rules, None, scope) for step in fresh]
    if not app.is_deleted and not any(step.is_write and step.action is not Action.HOOK for step in fresh):
        # Hooks surround a sync; with nothing to sync they do not run.
        fresh = [_skipped(step) if step.action is Action.HOOK else step for step in fresh]
    steps += fresh
    ordered = _in_previous_order(fresh, known, len(steps)) or in_order(needs_first(steps))
    writes = [step for step in ordered if step.is_write]
    return Plan(
        app.key,
        revision,
        ordered,
        digest(app.key, f"{revision} replaces {inputs.replaces}" if inputs.replaces else revision, writes),
        plan_risk(writes, app.risk.max_deletes),
        explain(ordered),
        _ownership_conflicts(app, ordered, cluster.claims),
        replaces=inputs.replaces,
    )


def step_alone(inputs: PlanInput, ref: ObjectRef) -> Change | None:
    """
    Return the step of one declared object where it does nothing whatever the others do, else None.

    Only the live object of this one is read.
    """
    for step in _steps(inputs, ref):
        return None if step.is_write or step.options.hooks else classify(step)
    return None


def with_steps(plan: Plan, steps: Mapping[ObjectRef, Change]) -> Plan:
    """Return a plan with other steps for some objects, which do nothing as the steps before did."""
    return replace(plan, changes=tuple(steps.get(change.ref, change) for change in plan.changes))


def completed(plan: Plan, steps: Mapping[ObjectRef, Change]) -> Plan:
    """Return a plan whose only steps were done, with what they are now; ``steps`` do nothing."""
    after = with_steps(plan, steps)
    revision = f"{plan.revision} replaces {plan.replaces}" if plan.replaces else plan.revision
    return replace(
        after, digest=digest(plan.application, revision, ()), risk=Risk.SAFE, explanation=explain(after.changes)
    )


def _in_previous_order(
    fresh: Iterable[Change], known: Mapping[ObjectRef, Change], count: int
) -> tuple[Change, ...] | None:
    """
    Return the steps of the previous plan, in its order, with some replaced; None where the order may be another one.

    ``known`` are those steps, ``count`` is the number of steps now. Sorting costs as much as all other planning.
    """
    replaced = {step.ref: step for step in fresh}
    for ref, step in replaced.items():
        before = known.get(ref)
        if before is None or step.options.hooks or before.options.hooks or sort_key(step) != sort_key(before):
            return None
    return tuple({**known, **replaced}.values()) if len(known) == count else None


def uncertain(plan: Plan, *, is_reviewed: bool = False) -> tuple[ObjectRef, ...]:
    """
    Return the refs whose step a dry-run apply should confirm, because only the API server can be sure.

    A person who reviews a plan sees what the API server would answer to each update, also to one that is inferred.
    """
    return tuple(change.ref for change in plan.changes if not change.certain or (is_reviewed and change.inferred))


def digest(application: str, revision: str, changes: Iterable[Change]) -> str:
    """Return the hash that a review is bound to: it changes with any step, desired content or reviewed live content."""
    steps = [
        [
            change.ref.path,
            change.action.value,
            change.rule,
            change.desired,
            uid_of(change.live or {}),
            _reviewed_content(change),
        ]
        for change in changes
        if change.is_write
    ]
    return content_hash([application, revision, steps])


def _reviewed_content(change: Change) -> object:
    """
    Return the live content that a decision depends on: what an update changes, and all that a deletion loses.

    The resourceVersion is not part of it, since every status update of another controller changes it.
    """
    if change.action in (Action.PRUNE, Action.REPLACE):
        return declared(change.live or {})
    return [[item.pointer, item.live] for item in change.differences]


def family(ref: ObjectRef) -> ObjectRef:
    """Return the ref without the hash suffix that a generator appends to a name."""
    return ref._replace(name=_HASH.sub("", ref.name))


def predecessors(steps: Iterable[Change]) -> dict[ObjectRef, Manifest]:
    """Return the pruned objects by family: an object that a generator creates under a new name replaces one of them."""
    return {family(step.ref): step.live for step in steps if step.action is Action.PRUNE and step.live is not None}


def paired(step: Change, predecessor: Manifest | None, schema_of: SchemaOf) -> Change:
    """Return the step that creates a generated object with its differences from the one it follows."""
    if step.action is not Action.CREATE or step.desired is None or predecessor is None:
        return step
    follows = ref_of(predecessor)
    if not (_GENERATED.search(follows.name) and _GENERATED.search(step.ref.name)):
        return step
    found = compare_objects(step.desired, predecessor, schema_of(step.desired)).differences
    mark = "/metadata/annotations/" + TRACKING_ID.replace("/", "~1")  # it names the object, so it always differs
    return replace(step, follows=follows, differences=tuple(item for item in found if item.pointer != mark))


def _ownership_conflicts(
    app: Application, changes: Iterable[Change], claims: Mapping[ObjectRef, str]
) -> tuple[str, ...]:
    """Return a line for each object that another Application declares and already owns."""
    lines = []
    for change in changes if claims else ():
        rival = claims.get(change.ref, "")
        if change.desired is not None and change.live is not None and rival and owner_of(change.live) == rival:
            lines.append(f"{change.ref}: belongs to Application {rival}, which declares it too; remove it from one")
    return tuple(lines)


def _is_unchanged(again: Change, manifest: Manifest, live: Manifest | None, options: Options) -> bool:
    """
    Whether a step of the previous plan is still valid: the same declared and the same live object.

    A step with ignored differences is planned again, since the rules that ignore them may have changed.
    """
    return (
        again.action is Action.NOTHING
        and not again.differences
        and live is not None
        and (live is again.live or _is_same_version(live, again.live))
        and (again.desired is manifest or again.desired == manifest)
        and (again.options is options or again.options == options)
        and not options.hooks  # whether one runs depends on the others
    )


def _is_same_version(live: Manifest, before: Manifest | None) -> bool:
    return before is not None and _version(live) == _version(before) != ("", "")


def _version(live: Manifest) -> tuple[str, str]:
    return uid_of(live), resource_version_of(live)


def _skipped(step: Change) -> Change:
    return classify(replace(step, action=Action.NOTHING, reason="runs with the next sync"))


def _last_declared(before: Change | None, manifest: Manifest) -> Manifest | None:
    """Return what was declared of an object that was as declared, where Git declares something else now."""
    if before is None or before.is_write or before.unobserved or before.desired is manifest:
        return None
    return before.desired


def _steps(inputs: PlanInput, ref: ObjectRef, last: Manifest | None = None) -> Iterable[Change]:
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
        yield replace(step, reason=_UNOBSERVED, unobserved=cluster.unobserved[ref])
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


def _unobserved_changes(unobserved: Mapping[ObjectRef, str], desired: Collection[ObjectRef]) -> list[Change]:
    """Return a step that does nothing for each held object of unknown state: it is pruned once it is observed."""
    return [
        Change(ref, Action.NOTHING, reason=_UNOBSERVED, stage=prune_stage(ref.of, DEFAULT), unobserved=why)
        for ref, why in unobserved.items()
        if ref not in desired
    ]


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
