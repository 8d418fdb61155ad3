"""Plan again after an operation that only corrected objects, without observing the others."""

from __future__ import annotations

from dataclasses import replace

from gitsync.objects.change import Action
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.manifest import uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import completed
from gitsync.ports import Cluster, LiveCache
from gitsync.sync.input import ReconcileInput
from gitsync.sync.observe import Observation, Selection, health_of, observe
from gitsync.sync.planner import Planned, Planner


def after_updates(
    planned: Planned, given: ReconcileInput, planner: Planner, cluster: Cluster, live: LiveCache
) -> Planned | None:
    """
    Return the plan where all steps were updates of objects that are now as declared, None where all is planned again.

    The other objects are as they were observed before the steps: an event follows for each that changed meanwhile.
    """
    seen = planned.observation
    updated = [step.ref for step in planned.plan.writes]
    are_updates = all(step.action is Action.UPDATE for step in planned.plan.writes)
    if planned.target.hooks or not are_updates or not all(ref in seen.live and ref in seen.desired for ref in updated):
        return None
    declared = {ref: seen.desired[ref] for ref in updated}
    found = observe(Selection(declared, Inventory()), cluster, live)
    is_same = found.schemas is seen.schemas and all(_is_held(ref, found, given) for ref in updated)
    steps = planner.steps_alone(planned, found.live) if is_same else None
    if steps is None:
        return None
    health = {ref: health_of(ref, found.live[ref], live, planned.app.health_checks) for ref in updated}
    observation = replace(
        seen,
        live={**seen.live, **found.live},
        health={**seen.health, **health},
        inventory=given.state.inventory,
    )
    return replace(planned, given=given, observation=observation, plan=completed(planned.plan, steps))


def _is_held(ref: ObjectRef, found: Observation, given: ReconcileInput) -> bool:
    """Whether the inventory has exactly the live object."""
    live = found.live.get(ref)
    held = given.state.inventory.entries.get(ref)
    return live is not None and held == InventoryEntry(found.versions[ref], uid_of(live))
