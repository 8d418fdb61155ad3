"""Reconcile and plan single objects of an Application, without observing the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime

from gitsync.kube.parts import WORKLOADS
from gitsync.objects.change import Action
from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, resource_version_of, uid_of
from gitsync.objects.phase import Phase
from gitsync.objects.ref import ObjectRef
from gitsync.plan.build import completed, with_steps
from gitsync.plan.running import content_digest
from gitsync.plan.tracking import is_owned
from gitsync.ports import Cluster, LiveCache
from gitsync.state.views import Views
from gitsync.sync.input import ReconcileInput
from gitsync.sync.observe import Observation, Selection, health_of, observe
from gitsync.sync.planner import Planned, Planner
from gitsync.sync.running import RunningState
from gitsync.sync.status.report import Report
from gitsync.sync.status.view import view_with


@dataclass(frozen=True, slots=True)
class Settled:
    """What the last reconcile of an Application planned, which was in sync; ``version`` is its resourceVersion."""

    version: str
    planned: Planned

    @classmethod
    def after(cls, report: Report) -> Settled | None:
        """Return what a reconcile found, None where something is left to do or to report."""
        planned = report.planned
        is_failed = report.error is not None or report.source_error is not None
        if planned is None or is_failed or report.outcome.phase is not Phase.SYNCED or planned.plan.writes:
            return None
        # any change of a Pod may be what the prune of a generated object waits for
        if planned.observation.readers:
            return None
        return cls(resource_version_of(report.manifest), planned)


class SettledReconciler:
    """
    Decide whether changed live objects leave an Application in sync; the cost does not depend on the other objects.

    They do where each is declared, needs no step, and has the same health and the same entry in the inventory. Then the
    status stays as it is, and only the view of these objects is updated.
    """

    def __init__(self, cluster: Cluster, live: LiveCache, planner: Planner, views: Views) -> None:
        self._cluster = cluster
        self._live = live
        self._planner = planner
        self._views = views

    def reconcile(
        self, manifest: Manifest, settled: Settled, changed: Collection[ObjectRef], now: datetime, running: RunningState
    ) -> Settled | None:
        """
        Return what is known with the changed objects; None where the whole Application has to be reconciled.

        ``running`` is what the Application knows of the objects that its workloads read.
        """
        planned = settled.planned
        observation = planned.observation
        # any write to the Application: spec, marks and status are inputs of its plan
        if resource_version_of(manifest) != settled.version or not all(ref in observation.live for ref in changed):
            return None
        changed = [ref for ref in changed if not self._is_as_planned(observation, ref)]
        if not changed:
            self._views.conclude(planned.app.key, now)
            return settled
        declared = {ref: observation.desired[ref] for ref in changed if ref in observation.desired}
        observed = observe(Selection(declared, Inventory()), self._cluster, self._live)
        # another schema may change what counts as a difference in every object
        is_same = observed.schemas is observation.schemas and all(
            self._is_same(planned, ref, observed) and self._runs_as_before(planned, ref, observed, running)
            for ref in changed
        )
        steps = self._planner.steps_alone(planned, observed.live) if is_same else None
        if steps is None:
            return None
        live = {**observation.live, **observed.live}
        plan = with_steps(planned.plan, steps)
        new_observation = replace(observation, live=live)
        after = replace(settled, planned=replace(planned, plan=plan, observation=new_observation))
        view = self._views.application(planned.app.key)
        if view is not None:
            self._views.publish(view_with(view, after.planned, steps, now))
            self._views.conclude(planned.app.key, now)
        return after

    def _is_as_planned(self, observation: Observation, ref: ObjectRef) -> bool:
        """
        Whether an object is the very one that was planned with, as after our own write: its answer was planned with.

        Not said of workloads, whose Pods are reported as changes of them.
        """
        if ref.of in WORKLOADS:
            return False
        resource = self._cluster.resource(ref.group, observation.versions[ref], ref.kind)
        return resource is not None and self._live.get(resource, ref.namespace, ref.name) is observation.live[ref]

    def _is_same(self, planned: Planned, ref: ObjectRef, observed: Observation) -> bool:
        """Whether health and inventory have the same entry for an object as before."""
        observation = planned.observation
        live = observed.live.get(ref)
        if live is None or ref not in observation.health:  # hooks have none
            return False
        is_in_inventory = observation.inventory.has(ref, observation.versions[ref], uid_of(live))
        is_held = not is_owned(planned.app, live) or is_in_inventory
        return is_held and health_of(ref, live, self._live, planned.app) == observation.health[ref]

    def _runs_as_before(self, planned: Planned, ref: ObjectRef, observed: Observation, running: RunningState) -> bool:
        """Whether the Pods of a workload have the same findings, and what Pods read has the same content."""
        observation = planned.observation
        live = observed.live[ref]
        if ref in observation.references and content_digest(live) != content_digest(observation.live[ref]):
            return False
        return running.find_in(planned.app, ref, live, self._live) == observation.running.get(ref, ())


def after_updates(
    planned: Planned, inputs: ReconcileInput, planner: Planner, cluster: Cluster, live: LiveCache
) -> Planned | None:
    """
    Return the plan where all steps were updates of objects that are now as declared, None where all is planned again.

    The other objects are as they were observed before the steps: an event follows for each that changed meanwhile.
    """
    observation = planned.observation
    refs = [step.ref for step in planned.plan.writes]
    are_updates = all(step.action is Action.UPDATE for step in planned.plan.writes)
    if (
        # hooks and deletes change which objects exist; an update of one object leaves the others as they are
        planned.target.hooks
        or not are_updates
        or not all(ref in observation.live and ref in observation.desired for ref in refs)
    ):
        return None
    declared = {ref: observation.desired[ref] for ref in refs}
    observed = observe(Selection(declared, Inventory()), cluster, live)
    is_same = observed.schemas is observation.schemas and all(_is_held(ref, observed, inputs) for ref in refs)
    steps = planner.steps_alone(planned, observed.live) if is_same else None
    if steps is None:
        return None
    health = {ref: health_of(ref, observed.live[ref], live, planned.app) for ref in refs}
    new_observation = replace(
        observation,
        live={**observation.live, **observed.live},
        health={**observation.health, **health},
        inventory=inputs.state.inventory,
    )
    return replace(planned, inputs=inputs, observation=new_observation, plan=completed(planned.plan, steps))


def _is_held(ref: ObjectRef, observed: Observation, inputs: ReconcileInput) -> bool:
    """Whether the inventory has exactly the live object."""
    live = observed.live.get(ref)
    return live is not None and inputs.state.inventory.has(ref, observed.versions[ref], uid_of(live))
