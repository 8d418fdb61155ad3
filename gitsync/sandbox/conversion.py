"""Between the version an object is stored at and the one a request speaks."""

from __future__ import annotations

from gitsync.objects.manifest import Manifest
from gitsync.sandbox.resources import Resource


def convert(obj: Manifest, resource: Resource, *, to_storage: bool = False) -> Manifest:
    """Return a stored object at the resource's version, or the other way round; the same object when equal."""
    wanted = resource.storage_version if to_storage else resource.api_version
    if obj["apiVersion"] == wanted:
        return obj
    return {**obj, "apiVersion": wanted}
