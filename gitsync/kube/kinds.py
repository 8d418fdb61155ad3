"""Kinds that more than one package treats specially."""

from __future__ import annotations

from typing import Final

from gitsync.objects.manifest import Manifest, at
from gitsync.objects.ref import GroupKind

NAMESPACE: Final = GroupKind("", "Namespace")
POD: Final = GroupKind("", "Pod")
SERVICE: Final = GroupKind("", "Service")
SECRET: Final = GroupKind("", "Secret")
PERSISTENT_VOLUME_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def defined_kind(definition: Manifest) -> GroupKind:
    """Return the kind that a CustomResourceDefinition defines."""
    spec = definition.get("spec")
    return GroupKind(str(at(spec, "group", default="")), str(at(spec, "names", "kind", default="")))


def served_versions(definition: Manifest) -> tuple[str, ...]:
    """Return the versions that the API server will serve."""
    return tuple(v["name"] for v in at(definition, "spec", "versions", default=[]) if v.get("served", True))


def is_established(definition: Manifest) -> bool:
    """Whether the API server reports that it serves the kind."""
    conditions = at(definition, "status", "conditions") or []
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)
