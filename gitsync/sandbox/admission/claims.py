"""Admission of PersistentVolumeClaims: set the default storage class, allow expansion only by the class."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest, annotations_of, metadata_of
from gitsync.sandbox.admission.attributes import UPDATE, Attributes
from gitsync.sandbox.controllers.client import ControllerClient
from gitsync.sandbox.kinds.pods.resources import amount

GROUP = "storage.k8s.io"
_IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def with_default_class(api: ControllerClient, claim: Manifest) -> Manifest:
    """Return the claim with the newest default class, unless it names one, even an empty one."""
    if "storageClassName" in claim["spec"]:
        return claim
    defaults = [found for found in api.list(GROUP, "StorageClass") if annotations_of(found).get(_IS_DEFAULT) == "true"]
    if not defaults:
        return claim
    newest = max(defaults, key=lambda found: str(metadata_of(found).get("creationTimestamp", "")))
    return {**claim, "spec": {**claim["spec"], "storageClassName": metadata_of(newest)["name"]}}


def check_growth(api: ControllerClient, attributes: Attributes) -> None:
    """Refuse a bound claim that grows although its class does not allow it."""
    if attributes.operation != UPDATE or attributes.subresource or not attributes.is_of("", "PersistentVolumeClaim"):
        return
    if attributes.obj is None or attributes.old is None:
        return
    if (attributes.old.get("status") or {}).get("phase") != "Bound":
        return
    if _size(attributes.obj) <= _size(attributes.old):
        return
    storage_class = api.get(GROUP, "StorageClass", "", attributes.old["spec"].get("storageClassName") or "")
    if storage_class is None or not storage_class.get("allowVolumeExpansion"):
        raise attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must "
            "support resize"
        )


def _size(claim: Manifest) -> int:
    return amount(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0")).nanos
