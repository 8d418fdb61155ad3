"""PersistentVolumeClaimResize: a bound claim grows only where its class allows it."""

from __future__ import annotations

from gitsync.merge.quantity import parse
from gitsync.objects.manifest import Manifest, at
from gitsync.sandbox.admission.attributes import UPDATE, Attributes
from gitsync.sandbox.api import Api


def check_growth(api: Api, attributes: Attributes) -> None:
    """Refuse a claim that asks for more than before without the right to."""
    if attributes.operation != UPDATE or attributes.subresource or not attributes.is_of("", "PersistentVolumeClaim"):
        return
    bound = at(attributes.old, "status", "phase") == "Bound"  # validation refuses the others
    if not bound or _size(attributes.obj) <= _size(attributes.old):
        return
    name = at(attributes.old, "spec", "storageClassName")
    storage = api.get("storage.k8s.io", "StorageClass", "", name) if name else None
    if not at(storage, "allowVolumeExpansion"):
        raise attributes.forbidden(
            "only dynamically provisioned pvc can be resized and "
            "the storageclass that provisions the pvc must support resize"
        )


def _size(claim: Manifest | None) -> int:
    return parse(str(at(claim, "spec", "resources", "requests", "storage", default="0"))).nanos
