"""Owner marks: the label and annotation that name the Application that applied an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gitsync.objects.application import Application
from gitsync.objects.inventory import Inventory
from gitsync.objects.keys import APPLICATION_LABEL, OWNER_UID, TRACKING_ID
from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.objects.ref import ObjectRef, ref_of


def tracking_id(app: Application, ref: ObjectRef) -> str:
    """Return the tracking annotation of an object; it names the object, so that a copy does not match."""
    return f"{app.key}:{ref.path}"


def marked(app: Application, ref: ObjectRef, manifest: Manifest) -> Manifest:
    """Return the manifest with our owner marks; marks that Git itself declares are overwritten."""
    metadata = manifest["metadata"]
    return {
        **manifest,
        "metadata": {
            **metadata,
            # After those of Git: a manifest cannot claim to belong to another Application.
            "labels": {**(metadata.get("labels") or {}), APPLICATION_LABEL: app.name},
            "annotations": {**(metadata.get("annotations") or {}), TRACKING_ID: tracking_id(app, ref)},
        },
    }


def is_owned(app: Application, live: Manifest) -> bool:
    """
    Whether a live object carries this Application's tracking annotation, for this very object, or its uid.

    Of an Application that owns by reference, only objects that outlive it carry the annotation. One that is deleted
    owns what others, which are deleted too, left to it.
    """
    # By uid: an owner that is created again under its name does not own the children of the former.
    if app.owns_by_reference and controller_of(live) == app.uid:
        return True
    if app.deletes_for and owner_of(live) in app.deletes_for:
        return True
    return annotations_of(live).get(TRACKING_ID) == tracking_id(app, ref_of(live))


def controller_of(live: Manifest) -> str:
    """Return the uid of the object that controls a live one, also without a reference to it; empty where none does."""
    references = metadata_of(live).get("ownerReferences") or ()
    controllers = (str(reference.get("uid")) for reference in references if reference.get("controller"))
    return next(controllers, annotations_of(live).get(OWNER_UID, ""))


def owner_of(live: Manifest) -> str:
    """Return ``namespace/name`` of the Application that tracks a live object, empty when none does or it is a copy."""
    mark = annotations_of(live).get(TRACKING_ID, "")
    owner, _, path = mark.partition(":")
    return owner if path == ref_of(live).path else ""


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
