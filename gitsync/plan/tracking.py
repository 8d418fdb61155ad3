"""Owner marks: the label and annotation that name the Application that applied an object."""

from __future__ import annotations

from gitsync.objects.application import Application
from gitsync.objects.keys import APPLICATION_LABEL, TRACKING_ID
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
            "labels": {**(metadata.get("labels") or {}), APPLICATION_LABEL: app.name},
            "annotations": {**(metadata.get("annotations") or {}), TRACKING_ID: tracking_id(app, ref)},
        },
    }


def is_owned(app: Application, live: Manifest) -> bool:
    """
    Whether a live object carries this Application's tracking annotation, for this very object, or its uid.

    Of an Application that owns by reference, only objects that outlive it carry the annotation.
    """
    if app.owns_by_reference and controller_of(live) == app.uid:
        return True
    return annotations_of(live).get(TRACKING_ID) == tracking_id(app, ref_of(live))


def controller_of(live: Manifest) -> str:
    """Return the uid of the object that controls a live one, empty where none does."""
    references = metadata_of(live).get("ownerReferences") or ()
    return next((str(reference.get("uid")) for reference in references if reference.get("controller")), "")


def owner_of(live: Manifest) -> str:
    """Return ``namespace/name`` of the Application that tracks a live object, empty when none does or it is a copy."""
    mark = annotations_of(live).get(TRACKING_ID, "")
    owner, _, path = mark.partition(":")
    return owner if path == ref_of(live).path else ""
