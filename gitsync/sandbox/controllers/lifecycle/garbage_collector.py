"""Garbage collection: delete objects without a living owner, by the requested propagation policy."""

from __future__ import annotations

from collections import OrderedDict

from gitsync.objects.manifest import Manifest, group_of, uid_of
from gitsync.objects.ref import ObjectRef
from gitsync.sandbox.controllers.base import ControllerContext, SandboxController
from gitsync.sandbox.controllers.events import EventSource
from gitsync.sandbox.controllers.object_meta import MANAGER, Key, is_deleting, key_of, kind_of

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
# kube-controller-manager's absentOwnerCache has this size.
_REMEMBERED = 500
_SOURCE = EventSource("garbage-collector-controller")


class GarbageCollector(SandboxController):
    """
    Follow ownerReferences by uid.

    A key is (uid, "") of an object to check. An object without a living owner is deleted; a dangling reference
    beside a living owner is removed; an owner deleted in the foreground waits for those who block it.
    """

    name = "garbage"
    watches = frozenset({("*", "*")})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._places: dict[str, tuple[str, str, str, str]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()  # owners known to be gone, even when their kind is too

    def observe(self, event: str, obj: Manifest, old: Manifest | None) -> None:
        """Mark what has owners, what is going, and the dependents and owners of what went."""
        uid = uid_of(obj)
        owners = obj["metadata"].get("ownerReferences") or ()
        if event == "DELETED":
            self._places.pop(uid, None)
            self._bereave(uid)
            for owner in owners:
                if owner["uid"] in self._places:
                    self.enqueue((owner["uid"], ""))
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if owners or (is_deleting(obj) and (ORPHAN in finalizers or FOREGROUND in finalizers)):
            # Most writes change neither owners nor finalizers.
            changed = old is None or _bonds(obj) != _bonds(old)
            if changed:
                self._look_at(obj)
        if old is not None and old["metadata"].get("ownerReferences"):
            # An owner that goes in the foreground waits for those who block it, and for no others.
            for uid in sorted(_blocked(old) - _blocked(obj)):
                if uid in self._places:
                    self.enqueue((uid, ""))

    def _bereave(self, uid: str) -> None:
        """Queue the dependents of a deleted owner."""
        dependents = self._dependents(uid)
        if dependents:
            self._gone[uid] = None
            if len(self._gone) > _REMEMBERED:
                self._gone.popitem(last=False)
        for dependent in dependents:
            self._look_at(dependent)

    def _dependents(self, uid: str) -> list[Manifest]:
        # The index is a set of uids; an order makes runs repeatable.
        return sorted(self.api.owned_by(uid), key=lambda dependent: (dependent["kind"], key_of(dependent)))

    def _look_at(self, obj: Manifest) -> None:
        self._places[uid_of(obj)] = (*kind_of(obj), *key_of(obj))
        self.enqueue((uid_of(obj), ""))

    def reconcile(self, key: Key) -> None:
        """Decide about one object."""
        place = self._places.get(key[0])
        obj = self.api.get(*place) if place else None
        # Recreated under the same name: another object.
        if obj is None or uid_of(obj) != key[0]:
            self._places.pop(key[0], None)
            return
        finalizers = obj["metadata"].get("finalizers") or ()
        if is_deleting(obj):
            # Both finalizers at once cannot come from one request; orphaning is the one that destroys nothing.
            if ORPHAN in finalizers:
                self._orphan_dependents(obj)
            elif FOREGROUND in finalizers:
                self._delete_dependents(obj)
        elif obj["metadata"].get("ownerReferences"):
            self._judge(obj)
        else:
            del self._places[key[0]]

    def _orphan_dependents(self, owner: Manifest) -> None:
        uid = uid_of(owner)
        for dependent in self._dependents(uid):
            references = dependent["metadata"]["ownerReferences"]
            self._write_owners(dependent, [reference for reference in references if reference["uid"] != uid])
        self._remove_finalizer(owner, ORPHAN)

    def _delete_dependents(self, owner: Manifest) -> None:
        """Delete the dependents of an owner that goes in the foreground; let it go when none of them blocks."""
        dependents = self._dependents(uid_of(owner))
        blocking = [blocker for blocker in dependents if uid_of(owner) in _blocked(blocker)]
        # Checked first: dependents that do not block may outlive the owner.
        if not blocking:
            self._remove_finalizer(owner, FOREGROUND)
        for dependent in dependents:
            if not is_deleting(dependent):
                self._look_at(dependent)

    def _judge(self, obj: Manifest) -> None:
        """Delete an object whose owners are gone or going; drop the references of those beside a living one."""
        solid: list[Manifest] = []
        waiting: list[Manifest] = []
        for reference in obj["metadata"]["ownerReferences"]:
            owner = self._owner(obj, reference)
            if owner is None:
                continue
            # An owner that is deleted in the background is gone for its dependents only when it is gone.
            (waiting if owner and _awaits_dependents(owner) else solid).append(reference)
        if solid:
            if len(solid) < len(obj["metadata"]["ownerReferences"]):
                self._write_owners(obj, solid)
            return
        dependents = self._dependents(uid_of(obj)) if waiting else ()
        # Objects that own each other would wait for each other: the garbage collector of Kubernetes takes a dependent
        # that waits itself for a circle, and stops blocking.
        if any(map(_awaits_dependents, dependents)):
            references = obj["metadata"]["ownerReferences"]
            self._write_owners(obj, [reference | {"blockOwnerDeletion": False} for reference in references])
        # A dependent with dependents of its own has to wait for them, or the owner would go too early.
        self._delete(obj, foreground=bool(dependents))

    def _owner(self, obj: Manifest, reference: Manifest) -> Manifest | None:
        """
        Return the owner that a reference means, None when it is gone.

        An empty manifest means an owner that cannot be resolved: of an unknown kind, or of a namespaced kind
        referenced by a cluster-scoped object. Such an owner counts as living.
        """
        group = group_of(reference["apiVersion"])
        namespace = obj["metadata"].get("namespace") or ""
        resource = self.api.resource(group, reference["kind"])
        if resource is None:
            # A definition may have been deleted with its objects; otherwise the kind may only be unknown for now.
            return None if reference["uid"] in self._gone else {}
        namespaced = resource[1]
        if namespaced and not namespace:
            name = f"{reference['apiVersion']}/{reference['kind']}, name: {reference['name']}, uid: {reference['uid']}"
            text = f'ownerRef [{name}] does not exist in namespace ""'
            # The garbage collector of Kubernetes reports this and deletes nothing (attemptToDeleteItem).
            self.context.recorder.warning(obj, "OwnerRefInvalidNamespace", text, _SOURCE)
            return {}
        owner = self.api.get(group, reference["kind"], namespace if namespaced else "", reference["name"])
        return owner if owner is not None and uid_of(owner) == reference["uid"] else None

    def _delete(self, obj: Manifest, *, foreground: bool) -> None:
        finalizers = obj["metadata"].get("finalizers") or ()
        policy = "Background"
        if ORPHAN in finalizers:
            policy = "Orphan"
        elif foreground or FOREGROUND in finalizers:
            policy = "Foreground"
        self.api.delete(ObjectRef(*kind_of(obj), *key_of(obj)), uid=uid_of(obj), propagation=policy)

    def _write_owners(self, obj: Manifest, references: list[Manifest]) -> None:
        patch = {"metadata": {"ownerReferences": references or None, "uid": uid_of(obj)}}
        self.api.patch(ObjectRef(*kind_of(obj), *key_of(obj)), patch, manager=MANAGER)

    def _remove_finalizer(self, obj: Manifest, finalizer: str) -> None:
        kept = [name for name in obj["metadata"]["finalizers"] if name != finalizer]
        patch = {"metadata": {"finalizers": kept or None, "uid": uid_of(obj)}}
        self.api.patch(ObjectRef(*kind_of(obj), *key_of(obj)), patch, manager=MANAGER)


def _bonds(obj: Manifest) -> tuple[object, ...]:
    meta = obj["metadata"]
    return meta.get("ownerReferences"), meta.get("finalizers"), "deletionTimestamp" in meta


def _awaits_dependents(owner: Manifest) -> bool:
    return is_deleting(owner) and FOREGROUND in (owner["metadata"].get("finalizers") or ())


def _blocked(dependent: Manifest) -> set[str]:
    """Return the uids of the owners whose deletion the dependent holds up."""
    references = dependent["metadata"].get("ownerReferences") or ()
    return {reference["uid"] for reference in references if reference.get("blockOwnerDeletion")}
