"""
Repair and change: two ways from a live object to what Git declares.

The repair leads back to the state that was applied last; a user or the policy permitted that, so it needs no approval
of its class. The change leads from that state to what Git declares now, and is what a user approves. So the reasons
of a change never name what another user edited in the cluster, and such an edit never holds a commit back.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from gitsync.merge.apply import Conflicts
from gitsync.merge.field_manager import Write, apply_object
from gitsync.merge.schema import DEDUCED, Schema
from gitsync.merge.typed import TypedError
from gitsync.objects.change import DRIFT, REPAIR_RULE, Action, Change
from gitsync.objects.manifest import Manifest, metadata_of, pointer_parts
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import undeclared_fields
from gitsync.plan.options import options_of
from gitsync.plan.risk.objects import loses_data
from gitsync.plan.risk.table import NOTHING, Scope, classify
from gitsync.plan.steps import PlanInput, steps_of


@dataclass(frozen=True, slots=True)
class ObjectSteps:
    """
    What has to be done with one declared object: its repair, if any, and the steps of the change.

    ``live`` is the object as it is once it is repaired, None where it is absent then too.
    """

    steps: tuple[Change, ...]
    repair: Change | None = None
    live: Manifest | None = None


def object_steps(inputs: PlanInput, ref: ObjectRef, last: Manifest | None = None) -> ObjectSteps:
    """
    Return the repair of an object and its change.

    Where the state that was applied last is not known, the whole difference is a change. A repair that deletes what
    holds data, or that the policy of the operator names, is one too: both need an approval.
    """
    steps = tuple(steps_of(inputs, ref, last))
    live = inputs.cluster.live.get(ref)
    applied = inputs.applied.get(ref)
    # A hook runs again with each sync: a state that was applied before has no meaning for it.
    if applied is None or len(steps) != 1 or steps[0].options.hooks:
        return ObjectSteps(steps, live=live)
    step = steps[0]
    desired = inputs.desired[ref]
    if applied is desired or applied == desired:
        repair = _repair(inputs, step)
        if repair is None:
            return ObjectSteps(steps, live=live)
        return ObjectSteps((_at_rest(step),), repair, _repaired(inputs, applied, live))
    return _with_change(inputs, step, applied)


def _with_change(inputs: PlanInput, step: Change, applied: Manifest) -> ObjectSteps:
    """Return the steps of an object of which Git declares another state than was applied last."""
    ref = step.ref
    cluster = replace(inputs.cluster, dry_runs=inputs.cluster.repair_dry_runs)
    applied_inputs = replace(inputs, desired={ref: applied}, options={ref: options_of(applied)}, cluster=cluster)
    restoring = tuple(steps_of(applied_inputs, ref))
    repair = _repair(applied_inputs, restoring[0]) if len(restoring) == 1 else None
    live = inputs.cluster.live.get(ref)
    repaired = _repaired(inputs, applied, live) if repair is not None else live
    if repaired is None or step.action is Action.REPLACE:
        return ObjectSteps((step,), repair, repaired)  # what a replace deletes is the live object
    permitted = _without_foreign(inputs, applied, repaired)
    if repair is None and permitted is repaired:
        return ObjectSteps((step,), live=live)
    cluster = replace(inputs.cluster, live={ref: permitted}, dry_runs={})
    change = next(iter(steps_of(replace(inputs, cluster=cluster), ref)))
    if not change.is_write:
        return ObjectSteps((_at_rest(step),), repair, repaired)
    return ObjectSteps((_executable(change, step, permitted),), repair, repaired)


def _without_foreign(inputs: PlanInput, applied: Manifest, live: Manifest) -> Manifest:
    """
    Return an object without what clients added to it that Git did not declare, the identical one where there is none.

    Otherwise a commit that declares the same would do nothing to it, and need no approval: who may edit the object
    would have permitted it. What controllers and injectors add counts as it is.
    """
    schema: Schema = inputs.schema_of(applied) or DEDUCED
    fields = undeclared_fields(applied, live, schema, inputs.app.field_manager)
    pointers = [item.pointer for item, _ in fields if inputs.undeclared.is_of_clients(item)]
    if not pointers:
        return live
    result = copy.deepcopy(live)
    # the last items of lists first: their indices are those of the live object
    for pointer in sorted(pointers, key=_position, reverse=True):
        *above, last = pointer_parts(pointer)
        holder: Any = result
        for key in above:
            holder = holder[int(key) if isinstance(holder, list) else key]
        del holder[int(last) if isinstance(holder, list) else last]
    return result


def _position(pointer: str) -> tuple[tuple[int, str], ...]:
    """Return the sort key of a pointer, indices as numbers."""
    return tuple((int(key), "") if key.isdigit() else (-1, key) for key in pointer_parts(pointer))


def _executable(change: Change, step: Change, repaired: Manifest) -> Change:
    """
    Return a change from the repaired object that can run on the live one.

    It is classified and shown from the repaired object. ``step`` leads from the live object to the same state: where
    that is as Git declares already, since a user edited it so, the change still has to be permitted.
    """
    return replace(
        change,
        action=step.action if step.is_write else change.action,
        live=step.live,
        repaired=repaired,
        desired=step.desired or change.desired,
        managed_fields=step.managed_fields,
        removed=step.removed,
        problem=step.problem,
        certain=True,
    )


def _repair(inputs: PlanInput, step: Change) -> Change | None:
    """Return a step as the repair that runs without approval, None where it does nothing or needs one."""
    if not step.is_write:
        return None
    judged = classify(step, inputs.app.risk.rules, None, Scope(inputs.app, inputs.desired, inputs.cluster.live))
    limit = inputs.repairs_below
    # Whatever was permitted once, lost data cannot be restored.
    if loses_data(step) or (limit is not None and judged.risk.level >= limit.level):
        return None
    # Git did not permit it: a user requests the replace, which is a step like any other then.
    if step.action is Action.REPLACE and not options_of(inputs.desired[step.ref]).force:
        return None
    return replace(judged, rule=REPAIR_RULE, reason=_reason(step), always_asks=False)


def _reason(step: Change) -> str:
    """Return what a repair restores, and who changed it."""
    if step.action is Action.CREATE:
        return step.reason or "restores what was applied: the object was deleted"
    drift = [item for item in step.differences if item.kind in DRIFT]
    managers = sorted({owner.manager for item in drift for owner in item.owners if owner.manager})
    what = f"{drift[0].path}" + (f" and {len(drift) - 1} more fields" if len(drift) > 1 else "") if drift else ""
    by = f", set by {', '.join(managers)}" if managers else ""
    return "; ".join(filter(None, (f"restores what was applied{': ' if what else ''}{what}{by}", step.reason)))


def _at_rest(step: Change) -> Change:
    """Return the step of an object that is as declared once its repair is done."""
    return replace(
        step,
        action=Action.NOTHING,
        rule=NOTHING,
        reason="",
        differences=(),
        certain=True,
        inferred=False,
        problem="",
        managed_fields=None,
        removed=(),
    )


def _repaired(inputs: PlanInput, applied: Manifest, live: Manifest | None) -> Manifest | None:
    """Return an object as it is after its repair, None where the merge core cannot tell."""
    schema: Schema = inputs.schema_of(applied) or DEDUCED
    if live is not None and metadata_of(live).get("deletionTimestamp"):
        live = None  # the repair creates another one
    try:
        result = apply_object(live, applied, schema, Write(inputs.app.field_manager), force=True)
    except TypedError:  # the manifest does not fit its schema, which validation reports
        return None
    return None if isinstance(result, Conflicts) else result
