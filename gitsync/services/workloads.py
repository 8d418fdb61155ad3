"""Restart a workload and delete a Pod, on request of a user, with the rights of their Application."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gitsync.apply.change import impersonated
from gitsync.errors import WrongState
from gitsync.objects.application import Application
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.plan.running import POD, RESTARTABLE, RESTARTED_AT
from gitsync.ports import Clock, Cluster

_MANAGER: Final = "gitsync-restart"
"""A field manager of its own: the annotation is of no manifest, so that an apply must not own it or remove it."""


class WorkloadAction(StrEnum):
    """What can be requested for one live object."""

    RESTART = "restart"
    """Replace all Pods of a workload, as its update strategy says."""
    DELETE_POD = "delete-pod"
    """Delete one Pod; its controller creates another."""


def action_for(live: Manifest) -> WorkloadAction | None:
    """Return what can be requested for a kind, None for one that has no Pods or starts them once."""
    kind = ref_of(live).of
    if kind == POD:
        return WorkloadAction.DELETE_POD
    return WorkloadAction.RESTART if kind in RESTARTABLE else None


def check_action(action: WorkloadAction, live: Manifest) -> None:
    """Raise WrongState where an action does not fit an object, or would not have the effect that its name promises."""
    subject = str(ref_of(live))
    if action_for(live) is not action:
        raise WrongState(f"cannot be the object of {action.value}", object=subject)
    owners = metadata_of(live).get("ownerReferences") or ()
    controller = next((owner for owner in owners if owner.get("controller")), None)
    if action is WorkloadAction.DELETE_POD and controller is None:
        # a naked Pod would be gone, with its logs, until its manifest is applied again
        raise WrongState("has no controller that would create it again", object=subject, hint="sync its Application")
    if action is WorkloadAction.RESTART and controller is not None:
        kind = controller.get("kind")
        name = controller.get("name")
        # its controller sets the template back to what it declares, which would replace the Pods twice
        hint = f"gitsync agent restart {name}" if kind == "Agent" else f"restart {kind} {name}"
        raise WrongState(f"is written by {kind} {name}", object=subject, hint=hint)
    if metadata_of(live).get("deletionTimestamp"):
        raise WrongState("is being deleted already", object=subject)


@dataclass(frozen=True, slots=True)
class WorkloadService:
    """Carries such requests out, by one write each."""

    cluster: Cluster
    clock: Clock

    def restart(self, app: Application, live: Manifest) -> None:
        """Replace the Pods of a workload as ``kubectl rollout restart`` does; raise the errors of ``Cluster.apply``."""
        meta = metadata_of(live)
        annotations = {RESTARTED_AT: f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"}
        manifest = {
            "apiVersion": live["apiVersion"],
            "kind": live["kind"],
            # with its uid: an apply would create an object that is gone, or restart another one of the name
            "metadata": {"name": meta["name"], "namespace": meta["namespace"], "uid": uid_of(live)},
            "spec": {"template": {"metadata": {"annotations": annotations}}},
        }
        self.cluster.apply(manifest, manager=_MANAGER, user=impersonated(app))

    def delete_pod(self, app: Application, live: Manifest) -> None:
        """Delete exactly this Pod, in the time that it has to end; raise the errors of ``Cluster.delete``."""
        self.cluster.delete(ref_of(live), "v1", uid=uid_of(live), user=impersonated(app))

    def write_of(self, action: WorkloadAction) -> Callable[[Application, Manifest], None]:
        """Return what carries an action out."""
        return {WorkloadAction.RESTART: self.restart, WorkloadAction.DELETE_POD: self.delete_pod}[action]
