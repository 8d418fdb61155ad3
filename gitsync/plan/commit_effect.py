"""What another commit would change, from what two commits declare; the cluster is not part of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from gitsync.merge.schema import DefinedKinds, shipped_schema
from gitsync.objects.application import Application
from gitsync.objects.change import DRIFT, Action, Change, Difference, FieldDifference, Risk
from gitsync.objects.manifest import Manifest, content_hash
from gitsync.objects.ref import ref_of
from gitsync.plan.drift import compare_objects
from gitsync.plan.generated import family, is_generated, paired, predecessors
from gitsync.plan.mask import mask_change
from gitsync.plan.options import is_left_alone
from gitsync.plan.risk.table import Scope, classify


def commit_effect(
    declared_before: Iterable[Manifest],
    declared_after: Iterable[Manifest],
    app: Application | None = None,
) -> tuple[Change, ...]:
    """
    Return the steps from the objects of one commit to those of another, the riskiest first, Secret values masked.

    Values are compared by the schemas that gitsync ships and those that the commits define, since no API server is
    asked. A generated object and the one that it follows are one step. With the Application that declares them, its own
    risk rules count, and those that compare a step with everything else that is declared.
    """
    old, new = ({ref_of(item): item for item in side} for side in (declared_before, declared_after))
    # the later definition of a kind replaces the earlier one, as in the cluster
    schema_of = partial(shipped_schema, defined=DefinedKinds((*old.values(), *new.values())))
    # tests of charts have another random name in each render, and no sync applies one
    steps = [Change(ref, Action.PRUNE, live=old[ref]) for ref in old.keys() - new.keys() if not is_left_alone(old[ref])]
    for ref, desired in new.items():
        if is_left_alone(desired):
            continue
        if ref not in old:
            steps.append(Change(ref, Action.CREATE, desired=desired))
        elif desired != old[ref]:
            differences = compare_objects(desired, old[ref], schema_of(desired)).differences
            all_differences = (*_version_change(desired, old[ref]), *differences)
            steps.append(Change(ref, Action.UPDATE, desired=desired, live=old[ref], differences=all_differences))
    known = predecessors(steps)
    steps = [paired(step, known.get(family(step.ref)), schema_of) for step in steps]
    rules = app.risk.rules if app else ()
    scope = Scope(app, new, old) if app else None
    judged = [classify(step, rules, known.get(family(step.ref)), scope) for step in steps]
    followed = {step.follows for step in judged}
    shown = [step for step in judged if step.action is not Action.PRUNE or step.ref not in followed]
    # both values are declared: of a Secret too, none of them is that of a cluster
    masked = (mask_change(step, ("after", "before")) for step in shown)
    return tuple(sorted(masked, key=lambda step: (-step.risk.level, step.ref)))


def _version_change(desired: Manifest, old: Manifest) -> Iterator[FieldDifference]:
    """Yield that an object is declared in another version: live objects are read in the declared one, so only here."""
    if desired.get("apiVersion") != old.get("apiVersion"):
        yield FieldDifference(
            ".apiVersion", "/apiVersion", Difference.CHANGED, desired.get("apiVersion"), old.get("apiVersion")
        )


def effect_digest(steps: Iterable[Change]) -> str:
    """
    Return a hash of what steps write, by which a plan is found to do what the preview of its commit showed.

    Values that are the same in both commits' files are not part of it, and neither are deletions of generated objects,
    which a plan may have later than the commit that replaces them.
    """
    rows = [
        [
            step.ref.path,
            step.action.value,
            sorted([item.path, repr(item.live), repr(item.desired)] for item in step.differences if item.kind in DRIFT),
        ]
        for step in map(mask_change, steps)
        if step.is_write and not (step.action is Action.PRUNE and is_generated(step.ref))
    ]
    return content_hash(sorted(rows))


def effect_risk(steps: Iterable[Change]) -> Risk:
    """Return the class of the riskiest step, Safe where there is none."""
    return max((step.risk for step in steps), key=lambda risk: risk.level, default=Risk.SAFE)
