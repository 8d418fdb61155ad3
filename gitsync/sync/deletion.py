"""Delete the objects of an Application that is being deleted, between its PreDelete and PostDelete hooks."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from gitsync.errors import Rejected
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.objects.application import Application
from gitsync.objects.keys import AGENTS_GROUP, FINALIZER, GROUP, POST_DELETE, PRE_DELETE
from gitsync.objects.manifest import Manifest, group_of, metadata_of
from gitsync.objects.options import HookPhase, Options
from gitsync.objects.phase import Phase
from gitsync.objects.record import Commit
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.plan.steps import loses_namespace
from gitsync.ports import Cluster
from gitsync.sync.cache import ReconcileCache
from gitsync.sync.decision import DELETE
from gitsync.sync.desired import DesiredState
from gitsync.sync.input import Target
from gitsync.sync.reconciler import Planning, Reconciler
from gitsync.sync.status.report import Report
from gitsync.sync.status.writer import StatusWriter

_log = logging.getLogger(__name__)
_HOOKS = {PRE_DELETE: HookPhase.PRE_DELETE, POST_DELETE: HookPhase.POST_DELETE}
"""The finalizers of the deletion hooks."""


def phases_of(manifest: Manifest) -> frozenset[HookPhase]:
    """Return the phases of deletion hooks that the finalizers of an Application name."""
    return frozenset(phase for finalizer, phase in _HOOKS.items() if finalizer in _finalizers_of(manifest))


def wanted_finalizers(app: Application, phases: Collection[HookPhase]) -> frozenset[str]:
    """Return a finalizer for each thing to do when an Application with hooks of these phases is deleted."""
    if not app.sync.deletes_with_application:
        # without them Kubernetes deletes the Application at once, and its objects stay
        return frozenset()
    return frozenset({FINALIZER, *(finalizer for finalizer, phase in _HOOKS.items() if phase in phases)})


@dataclass(frozen=True, slots=True)
class Installation:
    """
    The definitions in a cluster, and the namespace of the controller (empty where it is not known).

    Deleting a CustomResourceDefinition deletes all its objects, and deleting a namespace all that is in it. Neither is
    a request to delete what an Application or an Agent has created, though each object looks as if a user had deleted
    it.
    """

    cluster: Cluster
    namespace: str = ""

    def removal(self, manifest: Manifest) -> str:
        """Return what is being removed, so that a deleted object of ours must not cascade; empty where nothing is."""
        for name in _definitions_of(manifest):
            # absent: the one of the owner, whose objects the garbage collector deletes only after it
            if self._is_removed(ObjectRef(CRD.group, CRD.kind, "", name), if_absent=True):
                return f"CustomResourceDefinition {name}"
        own = ObjectRef(NAMESPACE.group, NAMESPACE.kind, "", self.namespace)
        # absent: a controller outside the cluster has no namespace in it
        if self.namespace and self._is_removed(own, if_absent=False):
            return f"namespace {self.namespace} of the controller"
        return ""

    def _is_removed(self, ref: ObjectRef, *, if_absent: bool) -> bool:
        try:
            # read instead of watched: the deletion of the object may be observed before that of its definition
            live = self.cluster.read(ref, "v1")
        except Rejected as error:
            if error.code != 403:
                raise
            return False  # a controller that may not read it has to take the deletion as it looks
        return if_absent if live is None else bool(metadata_of(live).get("deletionTimestamp"))


def _definitions_of(manifest: Manifest) -> list[str]:
    """Return the names of the definitions whose deletion deletes an object: of its kind, and of its owner."""
    owners = [
        GroupKind(group_of(str(owner.get("apiVersion", ""))), str(owner.get("kind", "")))
        # the owner's too: an Agent is deleted by the garbage collector after its own definition
        for owner in metadata_of(manifest).get("ownerReferences") or ()
    ]
    return [_definition_name(of) for of in (ref_of(manifest).of, *owners) if of.group in (GROUP, AGENTS_GROUP)]


def _definition_name(of: GroupKind) -> str:
    return f"{of.kind.lower()}s.{of.group}"  # the plural of each of our kinds


class DeletionReconciler:
    """
    Delete what an Application applied; the finalizer of each step is removed when the step is complete.

    With pruning off, or where the objects are to stay, nothing is deleted; nor while gitsync itself is removed from the
    cluster, which deletes the Application without a request to delete what it applied. An Application that applied
    itself is gone once its finalizers are.
    """

    def __init__(
        self,
        desired: DesiredState,
        planning: Planning,
        reconciler: Reconciler,
        statuses: StatusWriter,
        installation: Installation,
    ) -> None:
        self._desired = desired
        self._evaluator = planning.evaluator
        self._gate = planning.gate
        self._reconciler = reconciler
        self._statuses = statuses
        self._installation = installation

    def reconcile(self, report: Report, cache: ReconcileCache) -> bool:
        """Run the PreDelete hooks, delete the objects, run the PostDelete hooks; return whether all is complete."""
        own = ObjectRef(GROUP, "Application", report.app.namespace, report.app.name)
        # deleting itself would wait for its own finalizer for ever
        report.state = replace(report.state, inventory=report.state.inventory.without([own]))
        remaining = _finalizers_of(report.manifest) if self._deletes_objects(report) else frozenset[str]()
        if FINALIZER in remaining:
            self._evaluator.inherit(report)
        report.manifest = self._statuses.set_finalizers(report.manifest, remaining)
        # one after the other: PreDelete hooks need the objects, PostDelete hooks need them gone
        # read from the object, not from the spec: a step whose finalizer is gone was completed, perhaps before a
        # restart
        for finalizer in (PRE_DELETE, FINALIZER, POST_DELETE):
            if finalizer not in remaining:
                continue
            if not self._is_complete(report, cache, finalizer):
                if report.outcome.phase in (Phase.SYNCED, Phase.DRIFTED, Phase.EXECUTING, Phase.PENDING):
                    report.outcome = replace(report.outcome, phase=Phase.DELETING)
                return False
            remaining -= {finalizer}
            report.manifest = self._statuses.set_finalizers(report.manifest, remaining)
            # the finalizer is gone, which says the same and survives a restart
            cache.execution.completed_hooks = {}
            report.state = replace(report.state, operation={})
        return True

    def _deletes_objects(self, report: Report) -> bool:
        """Return whether the objects of an Application are deleted with it: not where gitsync itself is removed."""
        if not report.app.sync.deletes_with_application:
            return False
        removed = self._installation.removal(report.manifest)
        if removed:
            about = {"application": report.app.key, "objects": len(report.state.inventory), "reason": removed}
            _log.warning("objects stay, because gitsync is being removed", extra=about)
        return not removed

    def _is_complete(self, report: Report, cache: ReconcileCache, finalizer: str) -> bool:
        """Continue the deletion step of a finalizer; return whether it is complete."""
        phase = _HOOKS.get(finalizer)
        if phase is None:
            # a running operation has to end first, or its record would be lost
            is_over = not len(report.state.inventory) and cache.execution.operation is None
            return is_over or self._delete_all(report, cache)
        # an Application that never applied anything has no commit whose hooks could run
        if not report.state.applied or cache.execution.completed_hooks.get("trigger") == phase.value:
            return True
        rendered = self._desired.load_for(report, cache, Commit(report.state.applied))
        # without the other objects, which these hooks must not apply again
        hooks = _hooks_of(report.app, rendered.objects, rendered.options, phase)
        target = Target(rendered.commit, hooks, {ref: rendered.options[ref] for ref in hooks})
        return not hooks or self._run_hooks(report, cache, target, phase)

    def _delete_all(self, report: Report, cache: ReconcileCache) -> bool:
        """
        Delete the objects in the inventory; return whether that is complete.

        Only an Application that requires approvals waits for one, see ``decide_deletion``.
        """
        target = Target(Commit(report.state.applied))
        planned = self._reconciler.prepare(report, cache, target, DELETE)
        decision = self._gate.decide_deletion(planned, cache.execution)
        self._reconciler.report_decision(report, planned, decision)
        message = ""
        if decision.trigger:
            message = self._reconciler.execute(report, cache, planned, decision)
            planned = self._evaluator.plan_for(report, cache, target)
        self._reconciler.report_outcome(report, cache, planned, message)
        # what cannot be observed may exist, and without the finalizer it would never be deleted
        return cache.execution.operation is None and not planned.plan.writes and not planned.plan.unobserved

    def _run_hooks(self, report: Report, cache: ReconcileCache, target: Target, phase: HookPhase) -> bool:
        """
        Run the hooks of a phase, which are the target; return whether all of them succeeded.

        A failed hook is retried with the delays of the Application's retry policy.
        """
        running = cache.execution.operation
        planned = self._reconciler.prepare(report, cache, target, phase.value)
        # of a sync that has ended, only the record could not be saved: its hooks must not run a second time
        is_complete = running is not None and (running.trigger, running.ending) == (phase.value, "")
        decision = self._gate.decide_hooks(planned, cache.execution, phase)
        self._reconciler.report_decision(report, planned, decision)
        message = ""
        if decision.trigger and not is_complete:
            message = self._reconciler.execute(report, cache, planned, decision)
            is_complete = cache.execution.operation is None and not message
        report.observation = self._evaluator.observe(report, cache, target)
        self._reconciler.report_outcome(report, cache, planned, message)
        return is_complete


def _finalizers_of(manifest: Manifest) -> frozenset[str]:
    return frozenset(metadata_of(manifest).get("finalizers") or ())


def _hooks_of(
    app: Application, declared: Mapping[ObjectRef, Manifest], options: Mapping[ObjectRef, Options], phase: HookPhase
) -> dict[ObjectRef, Manifest]:
    """Return the hooks of a phase of the deletion, without those whose namespace is deleted by then."""
    return {
        ref: manifest
        for ref, manifest in declared.items()
        if phase in options[ref].hooks and not (phase is HookPhase.POST_DELETE and loses_namespace(app, ref, declared))
    }
