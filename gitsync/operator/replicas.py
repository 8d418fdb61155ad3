"""Fields that a live object decides: the replicas of an autoscaler, and what a claim was created from."""

from __future__ import annotations

from gitsync.merge.fieldset import Node
from gitsync.objects.keys import AGENTS_MANAGER
from gitsync.objects.manifest import Manifest, at, metadata_of

_PATH = ("f:spec", "f:replicas")


def without_reset(desired: Manifest, live: Manifest | None, least: int = 0) -> Manifest:
    """
    Return a workload without ``replicas`` with the live number, else ``least``, while only we own that field.

    A field that its last owner stops applying is removed, and the API server then defaults it to 1. The autoscaler
    becomes its owner with its first decision (Kubernetes documentation, "Migrating ... to horizontal autoscaling"). A
    HorizontalPodAutoscaler decides nothing while there are none, as after a suspension.
    """
    spec = desired.get("spec")
    if live is None or not isinstance(spec, dict) or "template" not in spec or "replicas" in spec:
        return desired
    owners = {
        str(entry.get("manager"))
        for entry in metadata_of(live).get("managedFields") or ()
        if _has(entry.get("fieldsV1") or {})
    }
    if owners != {AGENTS_MANAGER}:
        return desired
    return {**desired, "spec": {"replicas": at(live, "spec", "replicas", default=1) or least, **spec}}


def as_created(desired: Manifest, live: Manifest | None) -> Manifest:
    """Return a claim with the data source of the live one, which cannot be changed."""
    if live is None or desired.get("kind") != "PersistentVolumeClaim":
        return desired
    source = at(live, "spec", "dataSource")
    kept = {name: value for name, value in desired["spec"].items() if name != "dataSource"}
    return {**desired, "spec": {**kept, **({"dataSource": source} if source else {})}}


def _has(fields: Node) -> bool:
    return at(fields, *_PATH) is not None
