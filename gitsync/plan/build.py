"""Build the plan: the step of a sync for every object, in order, with class, reason and digest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from gitsync.kube.kinds import CRD, defined_kind
from gitsync.objects.application import Application
from gitsync.objects.change import Action, Change, Plan, Risk
from gitsync.objects.manifest import Manifest, content_hash, resource_version_of, uid_of
from gitsync.objects.options import DEFAULT, Options
from gitsync.objects.ref import GroupKind, ObjectRef
from gitsync.plan import jq_paths
from gitsync.plan.explain import explain
from gitsync.plan.generated import family, paired, predecessors, retained
from gitsync.plan.hook_needs import needs_first
from gitsync.plan.normalize import declared
from gitsync.plan.order import in_order, prune_stage, sort_key, with_room
from gitsync.plan.prune import prune_changes
from gitsync.plan.repair import object_steps
from gitsync.plan.risk.table import Scope, classify, plan_risk
from gitsync.plan.steps import UNOBSERVED, ClusterState, PlanInput, steps_of
from gitsync.plan.tracking import owner_of


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
    # Before any object: an invalid expression is an error also where no object matches its rule.
    for rule in app.sync.ignore:
        for expression in rule.jq_paths:
            jq_paths.parse(expression)
    known = {change.ref: change for change in previous.changes} if previous else {}
    # what is repaired has a step that does nothing, which must not be taken for one of an object that is as declared
    unsettled = {repair.ref for repair in previous.repairs} if previous else set()
    steps: list[Change] = []
    fresh: list[Change] = []
    repairs: list[Change] = []
    repaired: dict[ObjectRef, Manifest | None] = {}
    live_of = cluster.live.get
    dry_runs = cluster.dry_runs
    options = inputs.options
    for ref, manifest in desired.items():
        again = None if ref in unsettled else known.get(ref)
        if (
            again is None
            or (dry_runs and ref in dry_runs)
            or not _is_unchanged(again, manifest, live_of(ref), options[ref])
        ):
            object_plan = object_steps(inputs, ref, _last_declared(again, manifest))
            fresh += object_plan.steps
            if object_plan.repair is not None:
                repairs.append(object_plan.repair)
                repaired[ref] = object_plan.live
        else:
            steps.append(again)
    fresh += prune_changes(app, desired, cluster.live, inputs.inventory, cluster.claims)
    fresh += _unobserved_changes(cluster.unobserved, desired)
    pruned = predecessors(fresh)
    fresh = retained(app, fresh, cluster.readers, is_late=inputs.is_applied)
    # by the settings of what is live, a user could edit an endpoint in, and have a commit pass that introduces it
    scope = Scope(app, desired, _with_repaired(cluster.live, repaired))
    if pruned:
        fresh = [paired(step, pruned.get(family(step.ref)), inputs.schema_of) for step in fresh]
        fresh = [classify(step, app.risk.rules, pruned.get(family(step.ref)), scope) for step in fresh]
    else:
        fresh = [classify(step, app.risk.rules, None, scope) for step in fresh]
    fresh = with_room(fresh, cluster.rejections)
    if not app.is_deleted and not any(map(_needs_hooks, fresh)):
        # Hooks surround a sync; with nothing to sync they do not run.
        fresh = [_skipped(step) if step.action is Action.HOOK else step for step in fresh]
    steps += fresh
    ordered = _in_previous_order(fresh, known, len(steps)) or in_order(needs_first(steps))
    # not ``is_write``: a call for each of ten thousand steps takes longer than the comparison
    writes = [step for step in ordered if step.action is not Action.NOTHING]
    return Plan(
        app.key,
        revision,
        ordered,
        # An approval of a rewritten revision is for the commit that it replaces, too.
        digest(app.key, f"{revision} replaces {inputs.replaces}" if inputs.replaces else revision, writes),
        plan_risk(writes, app.risk.max_deletes),
        explain(ordered, repairs),
        _ownership_conflicts(app, (*ordered, *repairs), cluster),
        replaces=inputs.replaces,
        repairs=in_order(repairs),
    )


def _with_repaired(
    live: Mapping[ObjectRef, Manifest], repaired: Mapping[ObjectRef, Manifest | None]
) -> Mapping[ObjectRef, Manifest]:
    """Return the live objects as they are once the repairs are done."""
    if not repaired:
        return live
    return {**live, **{ref: manifest for ref, manifest in repaired.items() if manifest is not None}}


def step_alone(inputs: PlanInput, ref: ObjectRef) -> Change | None:
    """
    Return the step of one declared object where it does nothing whatever the others do, else None.

    Only the live object of this one is read.
    """
    for step in steps_of(inputs, ref):
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
        after,
        digest=digest(plan.application, revision, ()),
        risk=Risk.SAFE,
        explanation=explain(after.changes),
        repairs=(),
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
        previous = known.get(ref)
        if previous is None or step.options.hooks or previous.options.hooks or sort_key(step) != sort_key(previous):
            return None
    # A dict keeps the place of a key whose value is replaced.
    return tuple({**known, **replaced}.values()) if len(known) == count else None


def uncertain(plan: Plan, *, is_reviewed: bool = False) -> tuple[ObjectRef, ...]:
    """
    Return the refs whose step a dry-run apply should confirm, because only the API server can be sure.

    A person who reviews a plan sees what the API server would answer to each update, also to one that is inferred.
    """
    changes = (*plan.repairs, *plan.changes)
    return tuple(change.ref for change in changes if not change.certain or (is_reviewed and change.inferred))


def redefined_kinds(steps: Iterable[Change]) -> frozenset[GroupKind]:
    """Return the kinds whose definition some steps write."""
    return frozenset(defined_kind(step.desired) for step in steps if step.ref.of == CRD and step.desired is not None)


def digest(application: str, revision: str, changes: Iterable[Change]) -> str:
    """Return the hash that a review is bound to: it changes with any step, desired content or reviewed live content."""
    steps = [
        [
            change.ref.path,
            # an edit of the live object changes neither what is approved nor the approval of it
            (change.action if change.repaired is None else Action.UPDATE).value,
            change.rule,
            change.desired,
            # An object that was deleted and created again is another one: an approval of the former does not cover it.
            uid_of(change.base or {}),
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


def _ownership_conflicts(app: Application, changes: Iterable[Change], cluster: ClusterState) -> tuple[str, ...]:
    """Return a line for each object that another Application declares, and owns or has claimed."""
    claims = cluster.claims
    lines = []
    # The Application that owns an object continues; the other one is refused before its first write.
    for change in changes if claims or cluster.left_to else ():
        if change.desired is None:
            continue
        rival = claims.get(change.ref, "")
        owner = owner_of(change.live) if change.live is not None else ""
        if rival and owner == rival:
            lines.append(f"{change.ref}: belongs to Application {rival}, which declares it too; remove it from one")
        elif owner != app.key and change.ref in cluster.left_to:
            holder = cluster.left_to[change.ref]
            lines.append(
                f"{change.ref}: is left to Application {holder}, which declares it too and was first;"
                " remove it from one"
            )
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
        # By version where a watch has delivered the same object again.
        and (live is again.live or _is_same_version(live, again.live))
        and (again.desired is manifest or again.desired == manifest)
        and (again.options is options or again.options == options)
        and not options.hooks  # whether one runs depends on the others
    )


def _is_same_version(live: Manifest, previous: Manifest | None) -> bool:
    # Objects from files have neither, and are never known to be the same.
    return previous is not None and _version(live) == _version(previous) != ("", "")


def _version(live: Manifest) -> tuple[str, str]:
    return uid_of(live), resource_version_of(live)


def _needs_hooks(step: Change) -> bool:
    """Whether hooks run with a step: those of the commit have run before its leftovers are deleted."""
    return step.is_write and step.action is not Action.HOOK and not step.is_leftover


def _skipped(step: Change) -> Change:
    return classify(replace(step, action=Action.NOTHING, reason="runs with the next sync"))


def _last_declared(previous: Change | None, manifest: Manifest) -> Manifest | None:
    """Return what was declared of an object that was as declared, where Git declares something else now."""
    if previous is None or previous.is_write or previous.unobserved or previous.desired is manifest:
        return None
    return previous.desired


def _unobserved_changes(unobserved: Mapping[ObjectRef, str], desired: Collection[ObjectRef]) -> list[Change]:
    """Return a step that does nothing for each held object of unknown state: it is pruned once it is observed."""
    return [
        Change(ref, Action.NOTHING, reason=UNOBSERVED, stage=prune_stage(ref.of, DEFAULT), unobserved=why)
        for ref, why in unobserved.items()
        if ref not in desired
    ]
