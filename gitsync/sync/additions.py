"""What objects have beside what Git declares, added, held or kept: a finding of an Application, but no drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gitsync.errors import one_line
from gitsync.kube.masked_fields import masked_fields
from gitsync.objects.application import Application
from gitsync.objects.change import Change, FieldDifference, Plan
from gitsync.objects.conditions import Condition
from gitsync.objects.holds import FieldHold
from gitsync.objects.ref import ObjectRef
from gitsync.plan.dependent_members import kept_members
from gitsync.plan.ignored_fields import IgnoredFields
from gitsync.plan.mask import mask_difference
from gitsync.plan.steps import SchemaOf
from gitsync.plan.undeclared import Undeclared, UndeclaredState

UNDECLARED = "Undeclared"
"""The type of the condition; an Application has it while there is something to report."""
HELD = "FieldsHeld"
"""The type of the condition that names the fields that users hold; an Application has it while they do."""
_NAMED = 3
"""Fields that the condition names; the others are counted, since pages and commands list them."""

Additions = Mapping[ObjectRef, tuple[FieldDifference, ...]]
"""The fields that users added, by object, Secret values masked."""
KnownAdditions = dict[ObjectRef, tuple[Change, tuple[FieldDifference, ...]]]
"""The additions of the last plan, valid for the identical step: it has the same live and the same declared object."""


def additions_to(
    app: Application, plan: Plan, undeclared: Undeclared, schema_of: SchemaOf, known: KnownAdditions
) -> Additions:
    """Return what users added to the objects of a plan, without what a step removes; ``known`` is updated."""
    repairs = {repair.ref: repair for repair in plan.repairs}
    now: KnownAdditions = {}
    for change in plan.changes:
        step = repairs.get(change.ref, change)
        # by identity: a plan hands out the identical step while neither side of it changed
        entry = known.get(step.ref)
        is_same = entry is not None and entry[0] is step
        now[step.ref] = entry if entry and is_same else (step, added_fields(app, step, undeclared, schema_of))
    known.clear()
    known.update(now)
    return {ref: fields for ref, (_, fields) in now.items() if fields}


def added_fields(
    app: Application, step: Change, undeclared: Undeclared, schema_of: SchemaOf
) -> tuple[FieldDifference, ...]:
    """
    Return the fields that users added to the object of a step, without those that the step removes.

    Also, without an owner, those that the API server keeps although Git removed them.
    """
    if step.desired is None or step.live is None or step.options.hooks or step.unobserved:
        return ()
    state = UndeclaredState(step.desired, step.live, schema_of(step.desired), app.field_manager)
    fields = undeclared.findings(state, IgnoredFields.of(app, step.ref, step.options))
    known = {item.pointer for item in fields}
    fields += tuple(
        item for item in kept_members(step.desired, step.live, app.field_manager) if item.pointer not in known
    )
    removed = {item.pointer for item in step.differences}
    # what the step removes is drift, which is reported elsewhere
    masked = masked_fields(step.desired, step.live)
    return tuple(mask_difference(step.ref, item, fields=masked) for item in fields if item.pointer not in removed)


def undeclared_condition(additions: Additions) -> Condition | None:
    """Return the condition that names what users added, and who and when; None where they added nothing."""
    lines = list(_lines(additions))
    if not lines:
        return None
    more = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return Condition(UNDECLARED, "True", "FieldsAdded", "; ".join(lines[:_NAMED]) + more)


def _lines(additions: Additions) -> Iterator[str]:
    for ref, fields in sorted(additions.items()):
        for field in fields:
            # what has no owner was declared once, and an update without it does not remove it
            if not field.owners:
                value = f"{field.path} is {field.live}, which Git no longer declares"
                yield one_line(f"{ref}: {value} and the API server keeps until the object is recreated", 300)
                continue
            owner = field.owners[0]
            at = f" at {owner.time}" if owner.time else ""
            yield one_line(f"{ref}: {field.path} is not in Git, set by {owner.manager}{at}", 300)


def held_condition(holds: Sequence[FieldHold]) -> Condition | None:
    """Return the condition that names the fields that users hold, until when and why; None where they hold none."""
    lines = [
        one_line(f"{hold.text} until {hold.until:%Y-%m-%dT%H:%M:%SZ} by {hold.by}: {hold.reason}", 300)
        for hold in sorted(holds, key=lambda hold: (hold.until, hold.name))
    ]
    if not lines:
        return None
    more = f"; and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return Condition(HELD, "True", "Requested", "; ".join(lines[:_NAMED]) + more)
