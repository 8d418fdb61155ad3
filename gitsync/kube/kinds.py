"""Kinds that more than one package treats specially."""

from __future__ import annotations

from typing import Final

from gitsync.objects.ref import GroupKind

NAMESPACE: Final = GroupKind("", "Namespace")
POD: Final = GroupKind("", "Pod")
SERVICE: Final = GroupKind("", "Service")
SECRET: Final = GroupKind("", "Secret")
PERSISTENT_VOLUME_CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
