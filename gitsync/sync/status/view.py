"""The view of an Application that the dashboard shows, from the report of a reconcile; Secret values are masked."""

from __future__ import annotations

from dataclasses import replace

from gitsync.objects.change import Action, Change
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.manifest import Manifest
from gitsync.plan.mask import mask_change
from gitsync.ports import ApplicationView, ResourceView
from gitsync.sync.observe import Observation
from gitsync.sync.status.report import Report

_SYNC = {Action.CREATE: "Missing", Action.PRUNE: "ToPrune", Action.NOTHING: "Synced"}


def view_of(report: Report, status: Manifest) -> ApplicationView:
    """Return the view of an Application; without resources and plan where none was made."""
    observation, plan = report.observation, report.plan
    resources: tuple[ResourceView, ...] = ()
    if plan is not None and observation is not None:
        plan = replace(plan, changes=tuple(mask_change(change) for change in plan.changes))
        resources = tuple(_resource(report, observation, change) for change in plan.changes)
    else:
        plan = None
    return ApplicationView(
        key=report.app.key,
        application=report.app if report.app.source.repo_url else None,
        status=status,
        resources=resources,
        plan=plan,
        verdict=report.verdict,
        seen=report.now,
    )


def _resource(report: Report, observation: Observation, change: Change) -> ResourceView:
    """Return the view of an object, from its masked change."""
    ref = change.ref
    return ResourceView(
        ref=ref,
        version=observation.versions[ref],
        sync=_SYNC.get(change.action, "OutOfSync"),
        health=observation.health.get(ref, HealthStatus(Health.UNKNOWN)),
        change=change,
        problem=report.outcome.problems.get(ref, ""),
    )
