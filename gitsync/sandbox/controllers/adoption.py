"""Adoption: a controller adopts orphans that it selects, and releases objects that it no longer selects."""

from __future__ import annotations

from gitsync.kube.selectors import matches
from gitsync.objects.manifest import Manifest, labels_of
from gitsync.sandbox.controllers.client import ControllerClient
from gitsync.sandbox.controllers.object_meta import (
    MANAGER,
    Key,
    controller_ref,
    is_deleting,
    key_of,
    owner_reference,
)

ADOPTABLE = frozenset({("", "Pod"), ("apps", "ReplicaSet"), ("apps", "ControllerRevision")})


class OrphanIndex:
    """Index of adoptable objects without a controller, so that a search costs nothing while there are none."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], dict[str, None]] = {}

    def observe(self, event: str, obj: Manifest) -> None:
        """Follow one object."""
        namespace, name = key_of(obj)
        names = self._names.setdefault((obj["kind"], namespace), {})
        if event != "DELETED" and controller_ref(obj) is None:
            names[name] = None
        else:
            names.pop(name, None)

    def names(self, kind: str, namespace: str) -> tuple[str, ...]:
        """Return the names of the strays of a kind."""
        return tuple(self._names.get((kind, namespace), ()))


def adopt(api: ControllerClient, strays: OrphanIndex, owner: Manifest, group: str, kind: str) -> None:
    """Add ``owner`` as controller to the selected objects that have none; release those not selected any more."""
    if is_deleting(owner):
        return
    selector = owner["spec"].get("selector")
    uid = owner["metadata"]["uid"]
    namespace = owner["metadata"]["namespace"]
    for name in strays.names(kind, namespace):
        obj = api.get(group, kind, namespace, name)
        if obj is not None and not is_deleting(obj) and matches(selector, labels_of(obj)):
            _write(api, group, obj, [*(obj["metadata"].get("ownerReferences") or ()), owner_reference(owner)])
    for obj in list(api.owned_by(uid)):
        if obj["kind"] == kind and not is_deleting(obj) and not matches(selector, labels_of(obj)):
            references = obj["metadata"]["ownerReferences"]
            _write(api, group, obj, [each for each in references if each["uid"] != uid])


def adopters(api: ControllerClient, stray: Manifest, group: str, kind: str) -> list[Key]:
    """Return the keys of the objects of a kind that would adopt this one."""
    if controller_ref(stray) is not None:
        return []
    candidates = api.list(group, kind, stray["metadata"]["namespace"])
    return [key_of(each) for each in candidates if matches(each["spec"].get("selector"), labels_of(stray))]


def _write(api: ControllerClient, group: str, obj: Manifest, references: list[Manifest]) -> None:
    meta = obj["metadata"]
    patch = {"metadata": {"ownerReferences": references or None, "uid": meta["uid"]}}
    api.patch(group, obj["kind"], meta["namespace"], meta["name"], patch, manager=MANAGER)
