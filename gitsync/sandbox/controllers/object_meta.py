"""Reading helpers for the metadata, owners, selectors, conditions and times of objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from gitsync.objects.manifest import Manifest, at, group_of, metadata_of, uid_of
from gitsync.sandbox.registry.contract import ControllerClient

Key: TypeAlias = tuple[str, str]
"""Namespace (empty for a cluster-scoped object) and name."""

MANAGER = "kube-controller-manager"


def key_of(obj: Manifest) -> Key:
    """Return the key of an object."""
    meta = metadata_of(obj)
    return meta.get("namespace") or "", meta["name"]


def kind_of(obj: Manifest) -> tuple[str, str]:
    """Return the group and kind of an object."""
    return group_of(obj["apiVersion"]), obj["kind"]


def is_deleting(obj: Manifest) -> bool:
    """Return whether the object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def controller_ref(obj: Manifest) -> Manifest | None:
    """Return the ownerReference of the object's controller, or None."""
    for reference in metadata_of(obj).get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def controller_key(obj: Manifest, kind: str) -> Key | None:
    """Return the key of the object's controller if that is of this kind."""
    reference = controller_ref(obj)
    if reference is None or reference["kind"] != kind:
        return None
    return obj["metadata"].get("namespace") or "", reference["name"]


def owner_reference(owner: Manifest) -> Manifest:
    """Return the ownerReference by which an object says that ``owner`` controls it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        # A foreground deletion of the owner waits for this dependent.
        "blockOwnerDeletion": True,
    }


def controlled(api: ControllerClient, owner: Manifest, kind: str) -> list[Manifest]:
    """Return the objects of a kind that ``owner`` controls, oldest first."""
    uid = uid_of(owner)
    owned = [obj for obj in api.owned_by(uid) if obj["kind"] == kind and (controller_ref(obj) or {}).get("uid") == uid]
    return sorted(owned, key=lambda obj: (obj["metadata"]["creationTimestamp"], obj["metadata"]["name"]))


def condition_of(obj: Manifest, kind: str) -> Manifest:
    """Return the condition of a type, or an empty dict."""
    conditions: Iterable[Manifest] = at(obj, "status", "conditions") or ()
    return next((condition for condition in conditions if condition["type"] == kind), {})


def without_empty(members: Manifest) -> Manifest:
    """Return the members that are not zero, empty or absent: Kubernetes leaves those out."""
    return {key: value for key, value in members.items() if value}
