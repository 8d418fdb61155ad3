"""
What a sync of one Application would do now: observe → validate → plan; ``SyncGate`` then decides.

The controller evaluates before it decides whether to apply, and ``gitsync plan``, ``diff`` and ``approve`` evaluate the
same way, so that they show what the controller is about to do. Nothing is written: dry runs are requests, but change
nothing. Objects that finished and were deleted by their TTL are not missing, and must not run a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from gitsync.errors import Rejected, TerminalError
from gitsync.kube.times import finish_of, seconds_of, timestamp
from gitsync.objects.application import Application
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import Finished, InventoryEntry
from gitsync.objects.manifest import Manifest, content_hash, metadata_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.plan.drift import find_drift
from gitsync.plan.running import ExecutionsOf
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.ports import Cluster, LiveCache
from gitsync.state.declarations import Declarations
from gitsync.state.tracked import TrackedObjects
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.changed_objects import after_updates
from gitsync.sync.input import Target
from gitsync.sync.observe import Observation, confirm_missing, created_namespace, observe
from gitsync.sync.observed_objects import health_by_ref, updated_inventory
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.running import readers_of
from gitsync.sync.status.report import FailureReason, Report
from gitsync.sync.validation import validate_changed

_EARLY = 60.0
"""Seconds before its time at which a deletion still counts as one by the TTL: clocks differ."""


def with_finished(app: Application, observation: Observation, live: LiveCache, now: datetime) -> Observation:
    """
    Return the observation with the temporary objects that finished: in the inventory, and those that are gone.

    The inventory keeps that an object finished as Git declares it, so a restart runs nothing a second time. One that
    was deleted before its time was deleted by another client, and is missing. A change in Git runs a new one.
    """
    held = dict[ObjectRef, InventoryEntry]()
    gone = dict[ObjectRef, HealthStatus]()
    for ref in observation.temporary:
        known = observation.inventory.entries.get(ref)
        desired = observation.desired[ref]
        if known is None:
            continue
        manifest = observation.live.get(ref)
        content = content_hash(desired)
        last = manifest or live.last_finished(ref)
        finished = known.finished
        # an object of the same name with another uid is another run, whose end says nothing about this one
        finish = finish_of(last) if last is not None and known.uid in ("", uid_of(last)) else None
        if last is not None and finish is not None and _is_as_declared(app, desired, last, observation):
            finished = Finished(finish.succeeded, content, timestamp(finish.expires))
        if finished != known.finished:
            held[ref] = known._replace(finished=finished)
        # one that is being deleted is gone for the plan: creating it waits until its name is free
        is_leaving = manifest is None or bool(metadata_of(manifest).get("deletionTimestamp"))
        if is_leaving and finished is not None and finished.content == content and _is_due(finished, now):
            gone[ref] = _health(finished)
    inventory = observation.inventory.with_entries(held) if held else observation.inventory
    return replace(observation, inventory=inventory, finished=gone) if held or gone else observation


def _is_as_declared(app: Application, desired: Manifest, last: Manifest, observation: Observation) -> bool:
    return is_owned(app, last) and find_drift(desired, last, observation.schema_of(desired), app.field_manager).in_sync


def _is_due(finished: Finished, now: datetime) -> bool:
    return now.timestamp() >= seconds_of(finished.expires) - _EARLY


def _health(finished: Finished) -> HealthStatus:
    if finished.succeeded:
        return HealthStatus(Health.HEALTHY, "completed, and deleted by its TTL")
    return HealthStatus(Health.DEGRADED, "failed, and deleted by its TTL; a change in Git runs it again")


@dataclass(frozen=True, slots=True)
class ClusterView:
    """
    Where live objects are read, and where it is stored which of them matter to whom.

    ``unreadable`` returns those of some objects that an Application may not read, with the reason; ``executions_of``
    what users ran in a Pod.
    """

    cluster: Cluster
    live: LiveCache
    tracked: TrackedObjects
    declarations: Declarations
    unreadable: Callable[[Application, Iterable[ObjectRef]], Mapping[ObjectRef, str]]
    executions_of: ExecutionsOf = lambda pod: ()


class SyncEvaluator:
    """
    Evaluate a target; the results go into the report, so that a failure keeps what was found before it.

    ``report.stage`` is the stage that runs, and so the one that failed where a method raises.
    """

    def __init__(self, view: ClusterView, planner: Planner) -> None:
        self._view = view
        self._planner = planner

    def inherit(self, report: Report) -> None:
        """Have an Application that is deleted own what others left to it, see ``Declarations.left_to``."""
        left = self._view.declarations.left_to(report.app.key)
        if not left:
            return
        report.inputs = replace(report.inputs, app=replace(report.app, deletes_for=frozenset(left.values())))
        cluster = self._view.cluster
        entries = dict[ObjectRef, InventoryEntry]()
        for ref, owner in left.items():
            resource = cluster.any_version(ref.of)
            # what may not be read must not hold the deletion, which does not depend on it
            with suppress(TerminalError):
                live = cluster.read(ref, resource.version) if resource is not None else None
                if resource is not None and live is not None and owner_of(live) == owner:
                    entries[ref] = InventoryEntry(resource.version, uid_of(live))
        # only what the inventory has is ever pruned
        report.state = replace(report.state, inventory=report.state.inventory.widened(entries))

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
        cache.running.executions_of = self._view.executions_of
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
            validate_changed(observation, target.locate, cache.checks)
        report.stage = FailureReason.PLAN
        report.observation = observation
        target = target.with_choice(report.inputs.choice)
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
