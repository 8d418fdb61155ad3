"""Orphans: objects with the marks of an Application that no Application has in its inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitsync.objects.inventory import Inventory
from gitsync.objects.manifest import Manifest, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of
from gitsync.plan.tracking import owner_of


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object that is never pruned: the Application that applied it (``namespace/name``), and why it has no owner."""

    ref: ObjectRef
    application: str
    created: str
    why: str


def orphans(live: Iterable[Manifest], held: Mapping[str, Inventory]) -> tuple[Orphan, ...]:
    """
    Return which of these objects are orphans, sorted; ``held`` is what every Application holds, by its key.

    A mark names its object, so one that was copied (a Deployment hands its annotations on to ReplicaSets) does not
    count; nor does an object that is on its way out.
    """
    unheld = []
    for manifest in live:
        owner = owner_of(manifest)
        ref = ref_of(manifest)
        metadata = metadata_of(manifest)
        inventory = held.get(owner)
        if not owner or metadata.get("deletionTimestamp") or (inventory is not None and ref in inventory):
            continue
        why = "its Application is gone" if inventory is None else "its Application does not hold it"
        unheld.append(Orphan(ref, owner, str(metadata.get("creationTimestamp", "")), why))
    return tuple(sorted(unheld, key=lambda orphan: (orphan.application, orphan.ref)))
