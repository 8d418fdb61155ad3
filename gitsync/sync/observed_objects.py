"""ObservedObjects: what live objects say, computed again only for those that changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from gitsync.kube.parts import WORKLOADS
from gitsync.objects.application import Application
from gitsync.objects.health import Health, HealthStatus
from gitsync.objects.inventory import Inventory, InventoryEntry
from gitsync.objects.manifest import Manifest, uid_of
from gitsync.objects.options import Deletion, Reconcile
from gitsync.objects.ref import ObjectRef
from gitsync.plan.options import options_of
from gitsync.plan.tracking import is_owned, owner_of
from gitsync.ports import LiveCache
from gitsync.sync.observe import Observation, Selection, health_of


class ObservedObject(NamedTuple):
    """What one live object says, valid as long as it is the identical manifest."""

    live: Manifest
    is_owned: bool
    uid: str
    health: HealthStatus | None
    """None for a workload, whose health depends on its Pods too."""


ObjectsByRef: TypeAlias = Mapping[ObjectRef, ObservedObject]


class ObservedObjects:
    """What the live objects of one Application said at its last observation."""

    def __init__(self) -> None:
        self._app: Application | None = None
        self._known: ObjectsByRef = {}
        self._selection = Selection({}, Inventory())

    def select(self, desired: Mapping[ObjectRef, Manifest], inventory: Inventory) -> Selection:
        """Return the selection of these objects, the previous one where they are the identical ones."""
        selection = self._selection
        if selection.desired is not desired or selection.inventory is not inventory:
            self._selection = Selection(desired, inventory)
        return self._selection

    def update(self, app: Application, manifests: Mapping[ObjectRef, Manifest], live: LiveCache) -> ObjectsByRef:
        """Return what these objects say."""
        known = self._known if self._app == app else {}
        objects = dict[ObjectRef, ObservedObject]()
        for ref, manifest in manifests.items():
            again = known.get(ref)
            # by identity: the cache of live objects hands out the identical manifest until an event replaces it
            objects[ref] = again if again and again.live is manifest else _observed(app, ref, manifest, live)
        self._app = app
        self._known = objects
        return objects


def health_by_ref(
    app: Application, observation: Observation, objects: ObjectsByRef, live: LiveCache
) -> dict[ObjectRef, HealthStatus]:
    """Return the health of the declared objects."""
    health = dict[ObjectRef, HealthStatus]()
    for ref, manifest in observation.desired.items():
        if ref in observation.unobserved:
            health[ref] = HealthStatus(Health.UNKNOWN, observation.unobserved[ref])
            continue
        if ref in observation.finished:
            health[ref] = observation.finished[ref]
            continue
        observed = objects.get(ref)
        if observed is None and options_of(manifest).reconcile is Reconcile.NEVER:
            # such as the tests of a Helm chart: nothing will create it, so that its absence says nothing
            health[ref] = HealthStatus(Health.UNKNOWN, "is left out by its annotation")
            continue
        known = observed.health if observed is not None else None
        health[ref] = known or health_of(ref, observation.live.get(ref), live, app)
    return health


def updated_inventory(app: Application, observation: Observation, objects: ObjectsByRef) -> Inventory:
    """
    Return the inventory of an observation, the identical one where nothing changed.

    Objects that are neither declared nor live are dropped, those that were released, and those of another Application.
    An object that is unobserved stays.
    """
    held = observation.inventory
    desired = observation.desired
    versions = observation.versions
    changed = dict[ObjectRef, InventoryEntry]()
    for ref, present in objects.items():
        if present.is_owned:
            entry = held.entries.get(ref)
            version = versions[ref]
            is_same = entry is not None and entry.uid == present.uid and entry.version == version
            if not is_same and ref in desired:
                applied = entry.applied if entry is not None else ""
                changed[ref] = InventoryEntry(version, present.uid, applied=applied)
    observed = held.entries.keys() - observation.unobserved.keys()
    undeclared = {ref: objects.get(ref) for ref in observed - desired.keys()}
    dropped = [ref for ref, present in undeclared.items() if present is None or not _is_held(app, present.live)]
    if not changed and not dropped:
        return held
    remaining = held.without(dropped) if dropped else held
    return Inventory({**remaining.entries, **changed})


def _is_held(app: Application, live: Manifest) -> bool:
    """Whether an object that is not declared is still ours, or another client removed our marks from it."""
    owner = owner_of(live)
    is_ours = owner == app.key or owner in app.deletes_for
    return is_ours or (not owner and options_of(live).prune is not Deletion.KEEP)


def _observed(app: Application, ref: ObjectRef, manifest: Manifest, live: LiveCache) -> ObservedObject:
    health = None if ref.of in WORKLOADS else health_of(ref, manifest, live, app)
    return ObservedObject(manifest, is_owned(app, manifest), uid_of(manifest), health)
