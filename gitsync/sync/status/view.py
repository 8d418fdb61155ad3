"""The view of an Application that the dashboard shows, from the report of a reconcile; Secret values are masked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from gitsync.kube.masked_fields import masked_fields
from gitsync.objects.change import Action, Change, Difference, FieldDifference
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.keys import FIELD_MANAGER
from gitsync.objects.manifest import Manifest, resource_version_of
from gitsync.objects.phase import SyncStatus
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import with_steps
from gitsync.plan.field_owners import owners_of
from gitsync.plan.mask import mask, mask_change, mask_difference
from gitsync.plan.undeclared import REPORT, Undeclared, undeclared
from gitsync.ports import ApplicationView, ResourceView
from gitsync.sync.observe import Observation
from gitsync.sync.planner import Planned
from gitsync.sync.status.report import Report

_NO_HEALTH = HealthStatus(Health.UNKNOWN)
_SYNC = {
    Action.CREATE: SyncStatus.MISSING,
    Action.PRUNE: SyncStatus.TO_PRUNE,
    Action.NOTHING: SyncStatus.SYNCED,
}


def view_of(report: Report, status: Manifest, previous: ApplicationView | None = None) -> ApplicationView:
    """Return the view of an Application, which reuses parts of the previous one; without a plan where none was made."""
    observation = report.observation
    made = report.plan
    plan = None
    resources: tuple[ResourceView, ...] = ()
    if made is not None and observation is not None:
        repairs = {repair.ref: repair for repair in made.repairs}
        shown_repairs = {ref: mask_change(repair) for ref, repair in repairs.items()}
        shown_changes = tuple(mask_change(change) for change in made.changes)
        plan = replace(made, changes=shown_changes, repairs=tuple(shown_repairs.values()))
        previous_resources = previous.resources if previous else ()
        same = {id(resource.change): resource for resource in previous_resources}  # found sooner than by ref
        known = {resource.ref: resource for resource in previous_resources}
        resources = tuple(
            # of an object that others changed, that is shown; what a commit does with it, the plan shows
            _resource(
                report,
                observation,
                repairs.get(change.ref, change),
                shown_repairs.get(change.ref, shown),
                same.get(id(shown)) or known.get(change.ref),
            )
            for change, shown in zip(made.changes, shown_changes, strict=True)
        )
    return ApplicationView(
        key=report.app.key,
        application=report.app if report.app.source.repo_url else None,
        status=status,
        resources=resources,
        plan=plan,
        verdict=report.verdict,
        seen=report.now,
        version=resource_version_of(report.manifest),
    )


def view_with(
    view: ApplicationView, planned: Planned, steps: Mapping[ObjectRef, Change], now: datetime
) -> ApplicationView:
    """Return a view in which some objects changed without effect on the plan and the status."""
    shown = {ref: mask_change(step) for ref, step in steps.items()}

    def shown_again(resource: ResourceView) -> ResourceView:
        foreign = _foreign(steps[resource.ref], resource, planned.observation)
        judged = tuple(map(planned.undeclared.judged, foreign))
        return replace(resource, change=shown[resource.ref], foreign=judged)

    resources = tuple(shown_again(resource) if resource.ref in steps else resource for resource in view.resources)
    plan = with_steps(view.plan, shown) if view.plan is not None else None
    return replace(view, resources=resources, plan=plan, seen=now)


def _resource(
    report: Report, observation: Observation, change: Change, shown: Change, previous: ResourceView | None
) -> ResourceView:
    """Return the view of an object, from its change and the masked one that is ``shown``."""
    ref = change.ref
    problems = report.outcome.problems
    health = observation.health.get(ref, _NO_HEALTH)
    problem = problems.get(ref, "") if problems else ""
    # by identity: ``mask_change`` returns the identical step for anything but a Secret, whose view is rebuilt
    running = observation.running.get(ref, ())
    is_same = previous is not None and previous.change is shown and previous.health is health
    if previous is not None and is_same and previous.problem == problem and previous.running == running:
        return previous
    return ResourceView(
        ref=ref,
        version=observation.versions[ref],
        sync=SyncStatus.UNKNOWN if change.unobserved else _SYNC.get(change.action, SyncStatus.OUT_OF_SYNC),
        health=health,
        change=shown,
        problem=problem,
        foreign=tuple(map(_undeclared(report).judged, _foreign(change, previous, observation))),
        running=running,
    )


def _foreign(change: Change, previous: ResourceView | None, observation: Observation) -> tuple[FieldDifference, ...]:
    """
    Return the fields that other managers added to an object, masked; the previous ones if neither side changed.

    Those that the step removes are among its differences.
    """
    desired = change.desired
    live = change.live
    if desired is None or live is None:
        return ()
    if previous is not None and previous.change.live is not None and previous.change.desired is not None:
        # an object that was never written has no resourceVersion, and two empty ones say nothing
        is_same = resource_version_of(previous.change.live) == resource_version_of(live) != ""
        is_same = is_same and previous.change.removed == change.removed and previous.change.rule == change.rule
        if is_same and (previous.change.desired is desired or previous.change.desired == mask(desired)):
            return tuple(replace(item, kind=Difference.FOREIGN) for item in previous.foreign)
    # most objects have no other manager, and a comparison with their schema is expensive
    if all(owner.manager == FIELD_MANAGER for owner, _ in owners_of(live, FIELD_MANAGER).entries):
        return ()
    differences = undeclared(desired, live, observation.schema_of(desired))
    taken = {item.pointer for item in change.differences if item.kind is Difference.EXTRA}
    shown = (item for item in differences if item.kind is Difference.FOREIGN and item.pointer not in taken)
    fields = masked_fields(desired, live)
    return tuple(mask_difference(change.ref, item, fields=fields) for item in shown)


def _undeclared(report: Report) -> Undeclared:
    return report.planned.undeclared if report.planned is not None else REPORT
