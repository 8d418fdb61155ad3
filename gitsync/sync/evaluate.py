"""
What a sync of one Application would do now: observe → validate → plan; ``SyncGate`` then decides.

The controller evaluates before it decides whether to apply, and ``gitsync plan``, ``diff`` and ``approve`` evaluate the
same way, so that they show what the controller is about to do. Nothing is written: dry runs are requests, but change
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from gitsync.errors import Rejected
from gitsync.objects.application import Application
from gitsync.objects.ref import ObjectRef
from gitsync.ports import Cluster, LiveCache
from gitsync.state.declarations import Declarations
from gitsync.state.tracked import TrackedObjects
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.changed_objects import after_updates
from gitsync.sync.finished import with_finished
from gitsync.sync.input import Target
from gitsync.sync.observe import Observation, confirm_missing, created_namespace, observe
from gitsync.sync.observed_objects import health_by_ref, updated_inventory
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.running import readers_of
from gitsync.sync.status.report import FailureReason, Report
from gitsync.sync.validation import validate_once


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    Where live objects are read, and where it is stored which of them matter to whom.

    ``unreadable`` returns those of some objects that an Application may not read, with the reason.
    """

    cluster: Cluster
    live: LiveCache
    tracked: TrackedObjects
    declarations: Declarations
    unreadable: Callable[[Application, Iterable[ObjectRef]], Mapping[ObjectRef, str]]


class SyncEvaluator:
    """
    Evaluate a target; the results go into the report, so that a failure keeps what was found before it.

    ``report.stage`` is the stage that runs, and so the one that failed where a method raises.
    """

    def __init__(self, view: ClusterView, planner: Planner) -> None:
        self._view = view
        self._planner = planner

    def plan_for(self, report: Report, cache: ReconcileCache, target: Target) -> Planned:
        """Observe, validate and plan."""
        return self.plan(report, cache, target, self.observe(report, cache, target))

    def observe(self, report: Report, cache: ReconcileCache, target: Target) -> Observation:
        """Observe the objects of the target and of the inventory, which is updated to what exists."""
        report.stage = FailureReason.OBSERVE
        app = report.app
        desired = target.desired
        # stamped: the inventory has the digest of what was applied, which a write to the status may still lack
        inventory = cache.plans.applied.stamped(report.state.inventory)
        cluster = self._view.cluster
        live = self._view.live
        selection = cache.objects.select(desired, inventory)
        # before the observation: a change from now on reconciles again
        self._view.tracked.track_more(app.key, selection.versions.keys())
        # what it applied before a policy changed stays known: it would be lost for the inventory
        unreadable = self._view.unreadable(app, (ref for ref in desired if ref not in inventory.entries))
        observation = confirm_missing(observe(selection, cluster, live, unreadable), inventory, cluster)
        # several Applications may create a namespace that none of them declares
        created = [ref for ref, manifest in created_namespace(app).items() if desired.get(ref) == manifest]
        self._view.declarations.set_declared(app.key, frozenset(desired).difference(created))
        objects = cache.objects.update(app, observation.live, live)
        observation = replace(observation, inventory=updated_inventory(app, observation, objects))
        observation = with_finished(app, observation, live, report.now)
        health = health_by_ref(app, observation, objects, live)
        # hooks are not part of the health: they come and go with each sync
        for ref in target.hooks:
            del health[ref]
        cache.running.restore(report.previous_status)
        running, references = cache.running.find(app, observation.live, cluster, live)
        # a change of what they read, also where nothing declares it, has the workloads compared again
        self._view.tracked.track_more(app.key, references)
        readers = readers_of(observation.replaced, observation.live, live.dependents)
        observation = replace(observation, health=health, running=running, references=references, readers=readers)
        report.contents = cache.running.to_status()
        report.state = replace(report.state, inventory=observation.inventory)
        return observation

    def plan(self, report: Report, cache: ReconcileCache, target: Target, observation: Observation) -> Planned:
        """Validate the declared objects where the target says where they were written, and plan."""
        if target.locate is not None:
            # an object that is not valid is an error of the commit, which says nothing about health
            report.stage = FailureReason.RENDER
            report.observation = None
            validate_once(observation, target.locate, cache.checks)
        report.stage = FailureReason.PLAN
        report.observation = observation
        failed = cache.execution.failed
        cache.plans.rejections = {
            ref: result.message for ref, result in failed.items() if isinstance(result.error, Rejected)
        }
        report.planned = planned = self._planner.plan(report.inputs, target, observation, cache.plans)
        return planned

    def plan_updated(self, report: Report, cache: ReconcileCache, executed: Planned) -> Planned | None:
        """Plan after an operation that only updated objects, without the others; None where all have to be planned."""
        report.stage = FailureReason.OBSERVE
        planned = after_updates(executed, report.inputs, self._planner, self._view.cluster, self._view.live)
        if planned is None:
            return None
        report.stage = FailureReason.PLAN
        report.observation = planned.observation
        report.planned = planned
        cache.plans.plan = planned.plan
        return planned
