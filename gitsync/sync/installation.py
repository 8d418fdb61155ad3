"""
Whether gitsync itself is being removed from the cluster: then nothing that it manages is deleted with it.

Deleting a CustomResourceDefinition deletes all its objects, and deleting a namespace all that is in it. Neither is a
request to delete what an Application or an Agent has created, though each object looks as if a user had deleted it.
"""

from __future__ import annotations

from dataclasses import dataclass

from gitsync.errors import Rejected
from gitsync.kube.kinds import CRD, NAMESPACE
from gitsync.objects.keys import AGENTS_GROUP, GROUP
from gitsync.objects.manifest import Manifest, group_of, metadata_of
from gitsync.objects.ref import GroupKind, ObjectRef, ref_of
from gitsync.ports import Cluster


@dataclass(frozen=True, slots=True)
class Installation:
    """The definitions in a cluster, and the namespace of the controller (empty where it is not known)."""

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
