"""
Keep the children of Agents and systems when gitsync itself is removed from the cluster.

Their owner references would have the garbage collector delete them with the Agent, which goes with its definition. A
finalizer lets the controller see the deletion first: where it comes from the removal of gitsync, the owner references
are removed, otherwise only the finalizer.
"""

from __future__ import annotations

from typing import Final

from gitsync.agents.keys import ORDERED_DELETION
from gitsync.apply.change import impersonated
from gitsync.errors import Conflict, Rejected
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, metadata_of, uid_of
from gitsync.objects.ref import ref_of
from gitsync.operator.child_reconciler import ChildrenCache, ChildrenReconciler, Owner
from gitsync.operator.ownership import Ownership
from gitsync.operator.reporting import OwnerReconciler
from gitsync.ports import Cluster
from gitsync.sync.deletion import Installation

CHILDREN_FINALIZER: Final = "agents.gitsync.dev/children"
_MANAGER: Final = "gitsync-agents-removal"
"""A field manager of its own: another one whose apply omits the finalizer must not remove it."""
_RETRY = 1.0
"""Seconds until children are released again that changed meanwhile."""


class RemovalGuard:
    """Reconcile Agents or systems by another reconciler, and let none of their deletions cascade from a removal."""

    def __init__(
        self,
        inner: OwnerReconciler,
        children: ChildrenReconciler,
        cluster: Cluster,
        installation: Installation,
        ownership: Ownership,
    ) -> None:
        self._inner = inner
        self._children = children
        self._cluster = cluster
        self._installation = installation
        self._ownership = ownership

    def reconcile(self, manifest: Manifest, cache: ChildrenCache) -> float | None:
        """Reconcile one; return the seconds until the next reconcile, None when only an event can change it."""
        metadata = metadata_of(manifest)
        finalizers = metadata.get("finalizers") or ()
        if not metadata.get("deletionTimestamp"):
            if CHILDREN_FINALIZER not in finalizers:
                # before the children exist, so that none of them can be deleted with an unguarded Agent
                self._set_finalizer(manifest)
            return self._inner.reconcile(manifest, cache)
        if CHILDREN_FINALIZER not in finalizers:
            return self._inner.reconcile(manifest, cache)
        if not self._installation.removal(manifest):
            try:
                manifest = without_finalizer(self._cluster, manifest, CHILDREN_FINALIZER, _MANAGER)
            except Conflict:  # it changed since it was observed
                return _RETRY
            return self._inner.reconcile(manifest, cache)
        try:
            self._release(manifest)
            # The order of a deletion that does not happen, before the finalizer that tells it from one that does: with
            # the order alone, and a child that is not observed yet as it is now, the child would be deleted.
            manifest = without_finalizer(self._cluster, manifest, ORDERED_DELETION, AGENTS_MANAGER)
            # after the children are released: without it the Agent is gone, and with it their references lead nowhere
            without_finalizer(self._cluster, manifest, CHILDREN_FINALIZER, _MANAGER)
        except Conflict:  # the object or a child changed since it was observed
            return _RETRY
        return None

    def _release(self, manifest: Manifest) -> None:
        """Remove the owner references of the children; raise Conflict where one is not as it was observed."""
        uid = uid_of(manifest)
        owner = Owner(ref_of(manifest), uid, 0, self._ownership.manager(manifest))
        user = impersonated(self._children.writer_of(owner))
        for child in self._children.children(uid, ref_of(manifest).namespace).values():
            # from the object as it was observed: a patch with this resourceVersion fails when the list has changed
            references = metadata_of(child).get("ownerReferences") or ()
            pointers = [
                f"/metadata/ownerReferences/{index}"
                for index, reference in enumerate(references)
                if reference.get("uid") == uid
            ]
            self._cluster.remove_fields(child, pointers, manager=_MANAGER, user=user)

    def _set_finalizer(self, manifest: Manifest) -> None:
        """Apply the finalizer."""
        ref = ref_of(manifest)
        # the uid: the apply must not create the object again where it is gone by now
        metadata = {
            "name": ref.name,
            "namespace": ref.namespace,
            "uid": uid_of(manifest),
            "finalizers": [CHILDREN_FINALIZER],
        }
        try:
            self._cluster.apply(
                {"apiVersion": manifest["apiVersion"], "kind": ref.kind, "metadata": metadata}, manager=_MANAGER
            )
        except Conflict:
            return  # it is gone, or was recreated: its event follows
        except Rejected as error:
            if error.code != 404:  # it was deleted meanwhile
                raise


def without_finalizer(cluster: Cluster, manifest: Manifest, finalizer: str, manager: str) -> Manifest:
    """
    Remove a finalizer, and return the object then; raise Conflict where it changed since it was observed.

    By a patch: an apply without the last finalizer of its manager removes ``foregroundDeletion`` too, which no manager
    owns (Kubernetes 1.36), and the garbage collector would not wait for what the object owns any more.
    """
    finalizers = metadata_of(manifest).get("finalizers") or []
    if finalizer not in finalizers:
        return manifest
    try:
        return cluster.remove_fields(manifest, [f"/metadata/finalizers/{finalizers.index(finalizer)}"], manager=manager)
    except Rejected as error:
        # 404: it was deleted meanwhile, which ends the wait for the finalizer too
        if error.code != 404:
            raise
        return manifest
